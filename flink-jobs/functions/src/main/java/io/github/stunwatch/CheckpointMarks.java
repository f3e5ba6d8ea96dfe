package io.github.stunwatch;

import java.util.HashSet;
import java.util.Set;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * Sends a mark to every key that had rows since the last checkpoint, before the next one.
 *
 * <p>Python functions learn nothing of a checkpoint, so they would have to write their state after
 * every row. Pickling it takes longer than everything else that they do. With the marks they write
 * it once per key and checkpoint: a mark arrives after all rows of the checkpoint and before its
 * barrier. This needs aligned checkpoints.
 */
public final class CheckpointMarks extends AbstractStreamOperator<Row>
        implements OneInputStreamOperator<Row, Row> {

    /** The kind of a mark. */
    public static final String CHECKPOINT = "checkpoint";

    private final int arity;
    private final int kind;
    /** Few: a key is a bucket of log keys. */
    private final Set<Object> keys = new HashSet<>();

    private CheckpointMarks(int arity, int kind) {
        this.arity = arity;
        this.kind = kind;
    }

    /**
     * Returns the same rows, and the marks.
     *
     * @param rows rows of (key, record), where a record has a field `kind`
     */
    public static DataStream<Row> of(DataStream<Row> rows, String uid) {
        RowTypeInfo type = (RowTypeInfo) rows.getType();
        TypeInformation<Row> record = type.getTypeAt(1);
        int kind = ((RowTypeInfo) record).getFieldIndex("kind");
        CheckpointMarks marks = new CheckpointMarks(record.getArity(), kind);
        // With another parallelism, the rows of a key would lose their order here.
        return rows.transform("checkpoint marks", type, marks)
                .setParallelism(rows.getParallelism())
                .uid(uid);
    }

    @Override
    public void processElement(StreamRecord<Row> row) {
        keys.add(row.getValue().getField(0));
        output.collect(row);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) {
        for (Object key : keys) {
            Row record = new Row(arity);
            record.setField(kind, CHECKPOINT);
            output.collect(new StreamRecord<>(Row.of(key, record)));
        }
        keys.clear();
    }
}
