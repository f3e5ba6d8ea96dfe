package io.github.stunwatch;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;
import org.apache.flink.util.OutputTag;

/**
 * Runs the trackers (engine/tracking.py) inside this JVM: one call of Python per record.
 *
 * <p>Rows come with their bucket. The trackers of a bucket stay in Python's memory; before the
 * barrier of a checkpoint, those that have changed are pickled and written to Flink's state. After a
 * failure Flink restores that state and reads the later rows again.
 */
public final class Tracking extends PythonObjectOperator {

    private static final long serialVersionUID = 1L;

    /** Most buckets whose trackers one task keeps unpickled. */
    static final int MOST_KEPT = 2_048;

    /** Instead of a topic: the row is an input of the second step. */
    private static final String FACTS = "facts";

    /** The facts, rows as {@link #of} takes them. Their log key and offset are in the record. */
    private static final OutputTag<Row> SECOND_STEP =
            new OutputTag<>("facts", Types.ROW(Types.STRING, Types.STRING, Types.LONG, Types.STRING));

    private transient ValueState<byte[]> stored;
    /** The buckets in Python's memory, the least recently used first; true if changed. */
    private transient LinkedHashMap<String, Boolean> kept;

    private Tracking(Configuration configuration) {
        super(configuration, "from stunwatch.engine.tracking import Trackers", "Trackers");
    }

    /**
     * Returns the events of both steps, rows of (topic, owner, event).
     *
     * @param candidates rows of (bucket, log key, offset in Kafka, record as JSON)
     * @param configuration of the environment, with the paths of Python
     */
    public static DataStream<Row> of(DataStream<Row> candidates, Configuration configuration) {
        SingleOutputStreamOperator<Row> first = step(candidates, configuration, "first-step");
        return first.union(step(first.getSideOutput(SECOND_STEP), configuration, "second-step"));
    }

    private static SingleOutputStreamOperator<Row> step(
            DataStream<Row> rows, Configuration configuration, String name) {
        return rows.keyBy(row -> row.<String>getFieldAs(0), Types.STRING)
                .transform("track " + name, EVENTS, new Tracking(configuration))
                .uid("track-" + name);
    }

    @Override
    String evictedMetric() {
        return "tracker_state_evicted";
    }

    @Override
    public void open() throws Exception {
        kept = new LinkedHashMap<>(16, 0.75f, true);
        stored =
                getRuntimeContext()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "owners", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        super.open();
    }

    @Override
    public void processElement(StreamRecord<Row> row) throws Exception {
        Row fed = row.getValue();
        String bucket = fed.getFieldAs(0);
        load(bucket);
        send(python.invokeMethod("feed", bucket, fed.getField(1), fed.getField(2), fed.getField(3)));
    }

    @Override
    public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) throws Exception {
        load(timer.getKey());
        send(python.invokeMethod("on_timer", timer.getKey(), timer.getTimestamp()));
    }

    /** Sends a fact to the second step, and an event to its topic. */
    @Override
    void collect(Object[] fields) {
        if (FACTS.equals(fields[0])) {
            output.collect(SECOND_STEP, new StreamRecord<>(Row.of(fields[1], null, null, fields[2])));
        } else {
            super.collect(fields);
        }
    }

    /** Gives Python the stored trackers of the current bucket, unless it has them. */
    private void load(String bucket) throws Exception {
        if (kept.put(bucket, true) != null) {
            return;
        }
        byte[] state = stored.value();
        if (state != null) {
            python.invokeMethod("load", bucket, state);
        }
        if (kept.size() > MOST_KEPT) {
            Iterator<Map.Entry<String, Boolean>> eldest = kept.entrySet().iterator();
            Map.Entry<String, Boolean> dropped = eldest.next();
            String name = dropped.getKey();
            if (dropped.getValue()) {
                store(name);
                setCurrentKey(bucket);
            }
            eldest.remove();
            python.invokeMethod("drop", name);
        }
    }

    /** Writes the trackers of a bucket to Flink's state. */
    private void store(String bucket) throws Exception {
        setCurrentKey(bucket);
        byte[] state = (byte[]) python.invokeMethod("pickled", bucket);
        if (state == null) {
            stored.clear();
        } else {
            stored.update(state);
        }
    }

    @Override
    void storeChanges() throws Exception {
        for (Map.Entry<String, Boolean> each : kept.entrySet()) {
            if (each.getValue()) {
                store(each.getKey());
                each.setValue(false);
            }
        }
    }
}
