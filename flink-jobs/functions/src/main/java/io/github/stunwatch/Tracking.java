package io.github.stunwatch;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.operators.python.embedded.AbstractEmbeddedPythonFunctionOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;
import org.apache.flink.util.OutputTag;
import pemja.core.object.PyObject;

/**
 * Runs the trackers (engine/tracking.py) inside this JVM: one call of Python per record.
 *
 * <p>Rows come with their bucket. The trackers of a bucket stay in Python's memory; before the
 * barrier of a checkpoint, those that have changed are pickled and written to Flink's state. After a
 * failure Flink restores that state and reads the later rows again.
 *
 * <p>PyFlink's own operator calls Python several times per record, through four generators, and
 * ends each of them with an exception. That took three times as long as the trackers.
 */
public final class Tracking extends AbstractEmbeddedPythonFunctionOperator<Row>
        implements OneInputStreamOperator<Row, Row>, Triggerable<String, VoidNamespace> {

    private static final long serialVersionUID = 1L;

    /** Most buckets whose trackers one task keeps unpickled. */
    static final int MOST_KEPT = 2_048;

    /** Instead of a topic: the row is an input of the second step. */
    private static final String FACTS = "facts";

    private static final TypeInformation<Row> EVENTS =
            Types.ROW_NAMED(
                    new String[] {"topic", "owner", "event"}, Types.STRING, Types.STRING, Types.STRING);

    /** The facts, rows as {@link #of} takes them. Their log key and offset are in the record. */
    private static final OutputTag<Row> SECOND_STEP =
            new OutputTag<>("facts", Types.ROW(Types.STRING, Types.STRING, Types.LONG, Types.STRING));

    private transient ValueState<byte[]> stored;
    private transient InternalTimerService<VoidNamespace> timers;
    private transient PyObject trackers;
    /** The buckets in Python's memory, the least recently used first; true if changed. */
    private transient LinkedHashMap<String, Boolean> kept;

    private transient Counter failures;
    private transient Counter evicted;
    private transient long stateEvicted;

    private Tracking(Configuration configuration) {
        super(configuration);
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
    public void open() throws Exception {
        kept = new LinkedHashMap<>(16, 0.75f, true);
        stored =
                getRuntimeContext()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "owners", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        timers = getInternalTimerService("timers", VoidNamespaceSerializer.INSTANCE, this);
        failures = getMetricGroup().counter("detector_failures");
        evicted = getMetricGroup().counter("owners_evicted");
        getMetricGroup().gauge("tracker_state_evicted", () -> stateEvicted);
        super.open();
    }

    @Override
    public void openPythonInterpreter() {
        interpreter.exec("from stunwatch.engine.tracking import Trackers");
        trackers = (PyObject) interpreter.invoke("Trackers");
    }

    @Override
    public void processElement(StreamRecord<Row> row) throws Exception {
        Row fed = row.getValue();
        String bucket = fed.getFieldAs(0);
        load(bucket);
        send(trackers.invokeMethod("feed", bucket, fed.getField(1), fed.getField(2), fed.getField(3)));
    }

    @Override
    public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) throws Exception {
        load(timer.getKey());
        send(trackers.invokeMethod("on_timer", timer.getKey(), timer.getTimestamp()));
    }

    @Override
    public void onEventTime(InternalTimer<String, VoidNamespace> timer) {
        throw new UnsupportedOperationException("There are only timers of processing time.");
    }

    /** Gives Python the stored trackers of the current bucket, unless it has them. */
    private void load(String bucket) throws Exception {
        if (kept.put(bucket, true) != null) {
            return;
        }
        byte[] state = stored.value();
        if (state != null) {
            trackers.invokeMethod("load", bucket, state);
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
            trackers.invokeMethod("drop", name);
        }
    }

    /** Writes the trackers of a bucket to Flink's state. */
    private void store(String bucket) throws Exception {
        setCurrentKey(bucket);
        byte[] state = (byte[]) trackers.invokeMethod("pickled", bucket);
        if (state == null) {
            stored.clear();
        } else {
            stored.update(state);
        }
    }

    /**
     * Sends what Python returned: null, or the time of the bucket's next timer (0: no new one) and
     * rows of three strings.
     */
    private void send(Object told) {
        if (told == null) {
            return;
        }
        Object[] parts = (Object[]) told;
        long timer = ((Number) parts[0]).longValue();
        if (timer > 0) {
            timers.registerProcessingTimeTimer(VoidNamespace.INSTANCE, timer);
        }
        for (Object each : (List<?>) parts[1]) {
            Object[] fields = (Object[]) each;
            if (FACTS.equals(fields[0])) {
                output.collect(SECOND_STEP, new StreamRecord<>(Row.of(fields[1], null, null, fields[2])));
            } else {
                output.collect(new StreamRecord<>(Row.of(fields)));
            }
        }
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        super.prepareSnapshotPreBarrier(checkpointId);
        for (Map.Entry<String, Boolean> each : kept.entrySet()) {
            if (each.getValue()) {
                store(each.getKey());
                each.setValue(false);
            }
        }
        Object[] counts = (Object[]) trackers.invokeMethod("counts");
        failures.inc(((Number) counts[0]).longValue() - failures.getCount());
        evicted.inc(((Number) counts[1]).longValue() - evicted.getCount());
        stateEvicted = ((Number) counts[2]).longValue();
    }

    @Override
    protected void invokeFinishBundle() {}

    @Override
    public void close() throws Exception {
        if (trackers != null) {
            trackers.close();
        }
        super.close();
    }
}
