package io.github.stunwatch;

import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * Computes the incidents of live events (engine/correlating.py) inside this JVM.
 *
 * <p>An incident may involve any host and any VM, so there is one operator with one key.
 */
public final class Correlating extends PythonObjectOperator {

    private static final long serialVersionUID = 1L;

    private static final String FLEET = "fleet";

    /** The state by the names of its parts: parts that did not change are not pickled again. */
    private transient MapState<String, byte[]> stored;

    private transient boolean isLoaded;

    private Correlating(Configuration configuration, long submittedUs) {
        super(
                configuration,
                "from stunwatch.engine.correlating import LiveIncidents",
                "LiveIncidents",
                submittedUs);
    }

    /**
     * Returns the incidents, rows of (topic, event_id, event).
     *
     * @param events rows of (topic, event as JSON, time at which Kafka's message was written or null)
     * @param configuration of the environment, with the paths of Python
     * @param submittedUs the present, in microseconds since 1970
     */
    public static DataStream<Row> of(
            DataStream<Row> events, Configuration configuration, long submittedUs) {
        return events.keyBy(row -> FLEET, Types.STRING)
                .transform("correlate", EVENTS, new Correlating(configuration, submittedUs))
                .uid("correlate")
                .forceNonParallel();
    }

    @Override
    String evictedMetric() {
        return "incidents_state_evicted";
    }

    @Override
    public void open() throws Exception {
        stored =
                getRuntimeContext()
                        .getMapState(
                                new MapStateDescriptor<>(
                                        "parts",
                                        Types.STRING,
                                        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        super.open();
    }

    @Override
    public void processElement(StreamRecord<Row> row) throws Exception {
        load();
        Row fed = row.getValue();
        send(python.invokeMethod("feed", fed.getField(0), fed.getField(1), fed.getField(2)));
    }

    @Override
    public void onProcessingTime(InternalTimer<String, VoidNamespace> timer) throws Exception {
        load();
        send(python.invokeMethod("on_timer", timer.getTimestamp()));
    }

    /** Gives Python the stored state, once. */
    private void load() throws Exception {
        if (isLoaded) {
            return;
        }
        for (Map.Entry<String, byte[]> each : stored.entries()) {
            python.invokeMethod("load", each.getKey(), each.getValue());
        }
        isLoaded = true;
    }

    @Override
    void storeChanges() throws Exception {
        setCurrentKey(FLEET);
        for (Object each : (List<?>) python.invokeMethod("pickled")) {
            Object[] part = (Object[]) each;
            stored.put((String) part[0], (byte[]) part[1]);
        }
    }
}
