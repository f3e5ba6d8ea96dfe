package io.github.stunwatch;

import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.api.operators.python.embedded.AbstractEmbeddedPythonFunctionOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;
import pemja.core.object.PyObject;

/**
 * An operator that gives its rows and timers to one Python object in this JVM: one call per row.
 *
 * <p>The state stays in Python's memory. Before the barrier of a checkpoint, what has changed is
 * pickled and written to Flink's state. After a failure Flink restores that state and reads the
 * later rows again.
 *
 * <p>PyFlink's own operator calls Python several times per row, through four generators, and ends
 * each of them with an exception. It also pickles the state of a key at every call.
 */
abstract class PythonObjectOperator extends AbstractEmbeddedPythonFunctionOperator<Row>
        implements OneInputStreamOperator<Row, Row>, Triggerable<String, VoidNamespace> {

    private static final long serialVersionUID = 1L;

    /** The type of the results: the columns of `events` in jobs/detect.sql. */
    static final TypeInformation<Row> EVENTS =
            Types.ROW_NAMED(
                    new String[] {"topic", "owner", "event"}, Types.STRING, Types.STRING, Types.STRING);

    /**
     * Modules live as long as the process, and state has many objects: looking for garbage among them
     * after every 700 new objects takes a tenth of the time.
     */
    private static final String COLLECT_RARELY =
            "import gc; gc.freeze(); gc.set_threshold(50_000, 20, 100)";

    private final String statement;
    private final String pythonClass;
    private final Object[] arguments;

    /** The Python object. */
    transient PyObject python;

    private transient InternalTimerService<VoidNamespace> timers;
    private transient Counter failures;
    private transient Counter ownersEvicted;
    private transient long stateEvicted;

    /**
     * @param configuration of the environment, with the paths of Python
     * @param statement imports the Python class
     * @param pythonClass the name of the class
     * @param arguments of its constructor
     */
    PythonObjectOperator(
            Configuration configuration, String statement, String pythonClass, Object... arguments) {
        super(configuration);
        this.statement = statement;
        this.pythonClass = pythonClass;
        this.arguments = arguments;
    }

    /** Writes the state that has changed since the last call to Flink's. */
    abstract void storeChanges() throws Exception;

    /** The name of the metric that counts what was dropped because of a limit. */
    abstract String evictedMetric();

    @Override
    public void open() throws Exception {
        timers = getInternalTimerService("timers", VoidNamespaceSerializer.INSTANCE, this);
        failures = getMetricGroup().counter("detector_failures");
        ownersEvicted = getMetricGroup().counter("owners_evicted");
        getMetricGroup().gauge(evictedMetric(), () -> stateEvicted);
        super.open();
    }

    @Override
    public void openPythonInterpreter() {
        interpreter.exec(statement);
        interpreter.exec(COLLECT_RARELY);
        python = (PyObject) interpreter.invoke(pythonClass, arguments);
    }

    @Override
    public void onEventTime(InternalTimer<String, VoidNamespace> timer) {
        throw new UnsupportedOperationException("There are only timers of processing time.");
    }

    /**
     * Sends what Python returned: null, or the time of the key's next timer (0: no new one) and rows
     * of three strings.
     */
    final void send(Object told) {
        if (told == null) {
            return;
        }
        Object[] parts = (Object[]) told;
        long timer = ((Number) parts[0]).longValue();
        if (timer > 0) {
            timers.registerProcessingTimeTimer(VoidNamespace.INSTANCE, timer);
        }
        for (Object each : (List<?>) parts[1]) {
            collect((Object[]) each);
        }
    }

    /** Sends one row. */
    void collect(Object[] fields) {
        output.collect(new StreamRecord<>(Row.of(fields)));
    }

    @Override
    public final void prepareSnapshotPreBarrier(long checkpointId) throws Exception {
        super.prepareSnapshotPreBarrier(checkpointId);
        storeChanges();
        Object[] counts = (Object[]) python.invokeMethod("counts");
        failures.inc(((Number) counts[0]).longValue() - failures.getCount());
        ownersEvicted.inc(((Number) counts[1]).longValue() - ownersEvicted.getCount());
        stateEvicted = ((Number) counts[2]).longValue();
    }

    @Override
    protected final void invokeFinishBundle() {}

    @Override
    public final void close() throws Exception {
        if (python != null) {
            python.close();
        }
        super.close();
    }
}
