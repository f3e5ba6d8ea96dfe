package io.github.stunwatch;

import java.util.HashSet;
import java.util.Set;
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

    /** The value of a mark. A record as JSON begins with a brace. */
    public static final String CHECKPOINT = "checkpoint";

    /** Few: a key is a bucket of log keys. */
    private final Set<Object> keys = new HashSet<>();

    /**
     * Returns the same rows, and the marks.
     *
     * @param rows rows of (key, value), two strings
     */
    public static DataStream<Row> of(DataStream<Row> rows, String uid) {
        // With another parallelism, the rows of a key would lose their order here.
        return rows.transform("checkpoint marks", rows.getType(), new CheckpointMarks())
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
            output.collect(new StreamRecord<>(Row.of(key, CHECKPOINT)));
        }
        keys.clear();
    }
}
