package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.metrics.Counter;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Aggregates samples of esxtop and vCenter in windows of 10 seconds and of one minute.
 *
 * <p>Every object of a host (a device, an adapter, …) has its own clock: the time of its newest
 * sample. A window closes when that clock is far enough past its end. So no host's delay or wrong
 * clock affects another host, and a replay of old files uses the same code as live samples. Live, an
 * object's windows also close if it sends nothing for some time. A replay's windows close at its
 * progress record.
 *
 * <p>stunwatch/triage/windows.py computes the same in memory; a test compares both.
 */
public final class SampleWindows extends KeyedProcessFunction<String, Row, Row>
        implements CheckpointedFunction {

    private static final String LIVE = "live";
    static final long SHORT_MS = 10_000;
    static final long MINUTE_MS = 60_000;
    /** How much later than a newer sample of its object a sample may arrive without being late. */
    static final long LATENESS_MS = 10_000;
    /** A sample so much older than its object's clock shows that the clock was wrong. */
    static final long CLOCK_RESET_MS = 600_000;
    /** Live, a silent object's short windows close after this time. */
    static final long SILENCE_MS = 30_000;
    /** The same for its minutes: esxtop may measure twice a minute; vCenter is polled once. */
    static final long MINUTE_SILENCE_MS = 90_000;
    static final long VCENTER_SILENCE_MS = 180_000;
    /** State of an object, or of a replay without a progress record, is dropped after this time. */
    static final long FORGET_MS = 3_600_000;
    /**
     * After a restart with state, silence counts from 10 s after the first live sample, or from a minute
     * after the start if none comes. Before that, samples of the interruption are unread.
     */
    static final long RESUMED_MS = 10_000;

    static final long STARTED_MS = 60_000;
    /** A window passes on if it or one of so many windows before it contains a slow sample. */
    static final int WINDOWS_AFTER_SLOW = 30;
    /** Most objects of one host. */
    static final int MOST_OBJECTS = 20_000;
    /**
     * Heap of the JVM for each object that is kept. An object takes about 1 KiB, and as much again while
     * a checkpoint is written. The rest is for the other operators.
     */
    static final long HEAP_BYTES_PER_OBJECT = 4_096;
    /** Most samples of a minute whose percentile is computed; esxtop has at most 30. */
    static final int MOST_VALUES = 600;
    /** Times beyond are not times of samples: 1970 to 2262. */
    private static final long LAST_MS = 9_214_646_400_000L;

    /** How many objects all tasks of this JVM keep. */
    private static final AtomicLong KEPT = new AtomicLong();

    private final HashMap<String, Double> limits;
    private final long mostKept;

    private transient ValueState<Host> hosts;
    private transient MapState<String, Measured> objects;
    private transient ObjectMapper json;
    private transient MessageDigest md5;
    private transient HostsSeen hostsSeen;
    private transient long silentFromMs;
    private transient boolean hasRead;
    private transient long instance;
    private transient long kept;
    private transient Counter late;
    private transient Counter refused;
    private transient Counter failed;
    private transient String parsedText;
    private transient long parsedMs;

    private SampleWindows(HashMap<String, Double> limits, long mostKept) {
        this.limits = limits;
        this.mostKept = mostKept;
    }

    /**
     * The fields of the input, in this order. `devices` and the four after it are arrays: a sample of
     * several objects of one class at one time. An array of values is NULL if nothing has a value.
     */
    public static final String[] FIELDS = {
        "owner", "event_time", "kind", "host", "origin", "object_class", "devices", "davg_ms",
        "kavg_ms", "gavg_ms", "commands_per_second", "run_id"
    };

    /**
     * Returns rows of (kind, owner, host, run_id, event_time, message). By kind, the message is a
     * row of events.latency_window (window), the input of the latency detector (short_window), a
     * message for esxi.late (late), or absent (progress: the end of a replay; seen: a host sends).
     *
     * @param samples rows with {@link #FIELDS}; `origin` is never NULL
     * @param limits the thresholds of the latency detector, by name
     * @param mostKept how many objects all tasks of a JVM keep at most; 0 for as many as its heap allows
     */
    public static DataStream<Row> of(DataStream<Row> samples, Map<String, Double> limits, long mostKept) {
        TypeInformation<Row> type =
                Types.ROW_NAMED(
                        new String[] {"kind", "owner", "host", "run_id", "event_time", "message"},
                        Types.STRING, Types.STRING, Types.STRING, Types.STRING, Types.STRING, Types.STRING);
        return samples.keyBy(new RunAndOwner(), Types.STRING)
                .process(new SampleWindows(new HashMap<>(limits), mostKept), type)
                .name("sample windows")
                .uid("sample-windows");
    }

    /** The run and the log key. */
    private static final class RunAndOwner implements KeySelector<Row, String> {
        @Override
        public String getKey(Row row) {
            return row.getField(11) + " " + row.getField(0);
        }
    }

    /** What is known of one host in one run. Times are wall-clock times in ms since 1970. */
    public static final class Host {
        public long arrivedMs;
        public long timerMs;
        public int objects;
        public String newest;
        /** The instance of this function that has counted these objects. */
        public long countedBy;
    }

    /** The names of an object. All but run and log key are in the key of the map of objects. */
    private record Name(String runId, String owner, String origin, String objectClass, String device, String host) {

        static Name of(Row row, String device) {
            return new Name(
                    (String) row.getField(11),
                    (String) row.getField(0),
                    (String) row.getField(4),
                    (String) row.getField(5),
                    device,
                    (String) row.getField(3));
        }

        /** Reverses {@link RunAndOwner} and {@link #inMap}. */
        static Name of(String key, String inMap) {
            int space = key.indexOf(' ');
            int first = inMap.indexOf('|');
            int second = inMap.indexOf('|', first + 1);
            int last = inMap.lastIndexOf('|');
            return new Name(
                    key.substring(0, space),
                    known(key.substring(space + 1)),
                    inMap.substring(0, first),
                    inMap.substring(first + 1, second),
                    inMap.substring(second + 1, last),
                    known(inMap.substring(last + 1)));
        }

        /** Text that was null is `null` in a key. */
        private static String known(String text) {
            return text.equals("null") ? null : text;
        }

        /** True if {@link #of(String, String)} can read the key: only a device may contain the separator. */
        boolean isPlain() {
            return runId.indexOf(' ') < 0 && objectClass.indexOf('|') < 0 && (host == null || host.indexOf('|') < 0);
        }

        String inMap() {
            return origin + "|" + objectClass + "|" + device + "|" + host;
        }
    }

    private static final Count NOTHING = new Count();

    /** One object of a host: its clock and its open windows. Times in ms since 1970. */
    public static final class Measured {
        public long arrivedMs;
        public long clockMs;
        /** Windows that end until then are closed. */
        public long shortClosedMs;
        public long minuteClosedMs;
        /** Number of windows since the last one with a slow sample, by metric. */
        public int davgSinceSlow = Integer.MAX_VALUE / 2;
        public int gavgSinceSlow = Integer.MAX_VALUE / 2;
        public ShortWindow[] shorts = {};
        public Minute[] minutes = {};
    }

    /** Ten seconds of one metric of an object. */
    public static final class ShortWindow {
        public long endMs;
        public boolean isGavg;
        public double limitMs;
        public int samples;
        public long lastMs;
        /** Null as long as no sample is above the threshold that ends an episode. */
        public Count main;

        public Count kavg;
    }

    /** The samples of a window that are above a threshold. */
    public static final class Count {
        public int slow;
        public int warm;
        public long firstMs;
        public long lastMs;
        public double peak;
        public double sum;

        /** Adds a sample that is above `closing`. */
        void add(long atMs, double value, boolean isSlow) {
            warm++;
            if (!isSlow) {
                return;
            }
            firstMs = slow == 0 ? atMs : Math.min(firstMs, atMs);
            lastMs = slow == 0 ? atMs : Math.max(lastMs, atMs);
            peak = slow == 0 ? value : Math.max(peak, value);
            sum += value;
            slow++;
        }
    }

    /** One minute of an object. */
    public static final class Minute {
        public long startMs;
        public int samples;
        public double sum;
        public double max;
        public double[] values = {};
        public int kavgSamples;
        public double kavgSum;
        public double kavgMax;
        public int commandsSamples;
        public double commandsSum;
    }

    @Override
    public void open(OpenContext context) {
        hosts = getRuntimeContext().getState(new ValueStateDescriptor<>("host", Types.POJO(Host.class)));
        objects =
                getRuntimeContext()
                        .getMapState(
                                new MapStateDescriptor<>("objects", Types.STRING, Types.POJO(Measured.class)));
        json = new ObjectMapper();
        instance = System.nanoTime() + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask();
        hostsSeen = new HostsSeen();
        late = getRuntimeContext().getMetricGroup().counter("late_samples");
        refused = getRuntimeContext().getMetricGroup().counter("refused_samples");
        failed = getRuntimeContext().getMetricGroup().counter("failed_samples");
        try {
            md5 = MessageDigest.getInstance("MD5");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error); // every JVM has it
        }
    }

    @Override
    public void close() {
        KEPT.addAndGet(-kept);
        kept = 0;
    }

    @Override
    public void initializeState(FunctionInitializationContext context) {
        silentFromMs = context.isRestored() ? System.currentTimeMillis() + STARTED_MS : 0;
    }

    @Override
    public void snapshotState(FunctionSnapshotContext context) {}

    @Override
    public void processElement(Row row, Context context, Collector<Row> out) throws Exception {
        String kind = (String) row.getField(2);
        String runId = (String) row.getField(11);
        if (runId == null || kind == null) {
            return;
        }
        if (kind.equals("progress")) {
            if (!runId.equals(LIVE)) {
                end(context, out);
            }
            return;
        }
        long atMs = parsed((String) row.getField(1));
        if (!kind.equals("line") || atMs < 0) {
            return;
        }
        String host = (String) row.getField(3);
        String owner = (String) row.getField(0);
        long nowMs = context.timerService().currentProcessingTime();
        if (!hasRead && runId.equals(LIVE)) {
            hasRead = true;
            silentFromMs = Math.min(silentFromMs, nowMs + RESUMED_MS);
        }
        if (runId.equals(LIVE) && hostsSeen.isFirst(host, (String) row.getField(1), nowMs)) {
            out.collect(Row.of("seen", owner, host, runId, row.getField(1), null));
        }
        String objectClass = (String) row.getField(5);
        Object[] devices = (Object[]) row.getField(6);
        if (objectClass == null || devices == null || objectClass.equals("device_world")) {
            return;
        }
        for (int field = 7; field <= 10; field++) {
            Object[] values = (Object[]) row.getField(field);
            if (values != null && values.length != devices.length) {
                failed.inc();
                return;
            }
        }
        for (int number = 0; number < devices.length; number++) {
            if (devices[number] != null) {
                process(row, Name.of(row, (String) devices[number]), number, atMs, nowMs, context, out);
            }
        }
    }

    /** Adds the sample of one object of a row. */
    private void process(
            Row row, Name name, int number, long atMs, long nowMs, Context context, Collector<Row> out)
            throws Exception {
        Double davg = value(row, 7, number);
        Double main = davg == null ? value(row, 9, number) : davg;
        if (main == null) {
            return;
        }
        if (!name.isPlain()) {
            failed.inc();
            return;
        }
        String inMap = name.inMap();
        Measured each = measured(inMap, row, context, nowMs);
        if (each == null) {
            refused.inc();
            return;
        }
        if (atMs < each.clockMs - CLOCK_RESET_MS) {
            closeShorts(name, each, Long.MAX_VALUE, out);
            closeMinutes(name, each, Long.MAX_VALUE, out);
            each.clockMs = 0;
            each.shortClosedMs = 0;
            each.minuteClosedMs = 0;
        }
        each.arrivedMs = nowMs;
        each.clockMs = Math.max(each.clockMs, atMs);
        boolean isLate =
                add(name, each, atMs, davg == null, main, value(row, 8, number), value(row, 10, number));
        if (isLate) {
            late.inc();
            out.collect(Row.of("late", name.owner, name.host, name.runId, row.getField(1), lateMessage(name, atMs)));
        }
        closeShorts(name, each, each.clockMs - LATENESS_MS, out);
        closeMinutes(name, each, each.clockMs - LATENESS_MS, out);
        objects.put(inMap, each);
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<Row> out) throws Exception {
        Host host = counted(hosts.value());
        if (host == null) {
            return;
        }
        if (!context.getCurrentKey().startsWith(LIVE + " ")) {
            if (timestamp >= host.arrivedMs + FORGET_MS) {
                end(context, out);
            } else {
                schedule(host, host.arrivedMs + FORGET_MS, context);
            }
            return;
        }
        List<String> forgotten = new ArrayList<>();
        for (Map.Entry<String, Measured> entry : objects.entries()) {
            Measured each = entry.getValue();
            long silentMs = timestamp - Math.max(each.arrivedMs, silentFromMs);
            boolean hasShorts = each.shorts.length > 0 && silentMs >= SILENCE_MS;
            long most = entry.getKey().startsWith("vcenter|") ? VCENTER_SILENCE_MS : MINUTE_SILENCE_MS;
            boolean hasMinutes = each.minutes.length > 0 && silentMs >= most;
            if (hasShorts || hasMinutes) {
                Name name = Name.of(context.getCurrentKey(), entry.getKey());
                closeShorts(name, each, hasShorts ? Long.MAX_VALUE : 0, out);
                closeMinutes(name, each, hasMinutes ? Long.MAX_VALUE : 0, out);
                entry.setValue(each);
            }
            if (silentMs >= FORGET_MS) {
                forgotten.add(entry.getKey());
            }
        }
        for (String name : forgotten) {
            objects.remove(name);
        }
        host.objects -= forgotten.size();
        count(-forgotten.size());
        if (host.objects > 0) {
            schedule(host, timestamp + SILENCE_MS, context);
        } else {
            hosts.clear();
        }
    }

    /** Returns the state of a sample's object; null if its host or this JVM has too many. */
    private Measured measured(String inMap, Row row, Context context, long nowMs) throws Exception {
        Host host = counted(hosts.value());
        Measured known = host == null ? null : objects.get(inMap);
        if (known == null && (host != null && host.objects >= MOST_OBJECTS || KEPT.get() >= mostKept())) {
            return null;
        }
        if (host == null) {
            host = new Host();
            host.countedBy = instance;
            boolean isLive = LIVE.equals(row.getField(11));
            schedule(host, nowMs + (isLive ? SILENCE_MS : FORGET_MS), context);
        }
        host.arrivedMs = nowMs;
        host.newest = (String) row.getField(1);
        if (known == null) {
            host.objects++;
            count(1);
        }
        hosts.update(host);
        return known == null ? new Measured() : known;
    }

    /** Counts the objects of a host that was restored from a checkpoint. Returns the host. */
    private Host counted(Host host) {
        if (host != null && host.countedBy != instance) {
            host.countedBy = instance;
            count(host.objects);
        }
        return host;
    }

    private void count(long more) {
        kept += more;
        KEPT.addAndGet(more);
    }

    private long mostKept() {
        return mostKept > 0 ? mostKept : Runtime.getRuntime().maxMemory() / HEAP_BYTES_PER_OBJECT;
    }

    private void schedule(Host host, long atMs, Context context) throws Exception {
        host.timerMs = atMs;
        context.timerService().registerProcessingTimeTimer(atMs);
        hosts.update(host);
    }

    /** Closes all windows of a key, and drops its state. */
    private void end(Context context, Collector<Row> out) throws Exception {
        Host host = counted(hosts.value());
        if (host == null) {
            return;
        }
        Name last = null;
        for (Map.Entry<String, Measured> entry : objects.entries()) {
            last = Name.of(context.getCurrentKey(), entry.getKey());
            closeShorts(last, entry.getValue(), Long.MAX_VALUE, out);
            closeMinutes(last, entry.getValue(), Long.MAX_VALUE, out);
        }
        if (last != null) {
            out.collect(Row.of("progress", last.owner, last.host, last.runId, host.newest, null));
        }
        context.timerService().deleteProcessingTimeTimer(host.timerMs);
        count(-host.objects);
        objects.clear();
        hosts.clear();
    }

    /** Adds a sample to its windows. Returns true if one of them is closed. */
    private boolean add(
            Name name, Measured each, long atMs, boolean isGavg, double main, Double kavg, Double commands) {
        boolean isLate = false;
        long endMs = atMs - atMs % SHORT_MS + SHORT_MS;
        if (endMs <= each.shortClosedMs) {
            isLate = true;
        } else if (!isLocalBootDisk(name.device)) {
            ShortWindow window = shortWindow(name, each, endMs, isGavg);
            double weight = commands == null ? limit("enough_commands_per_second_count") : commands;
            window.samples++;
            window.lastMs = Math.max(window.lastMs, atMs);
            window.main = added(window.main, atMs, main, window.limitMs, weight);
            if (kavg != null) {
                window.kavg = added(window.kavg, atMs, kavg, limit("kavg_ms"), weight);
            }
        }
        long startMs = atMs - atMs % MINUTE_MS;
        if (startMs + MINUTE_MS <= each.minuteClosedMs) {
            return true;
        }
        Minute minute = minute(each, startMs);
        minute.max = minute.samples == 0 ? main : Math.max(minute.max, main);
        minute.sum += main;
        minute.samples++;
        if (minute.values.length < MOST_VALUES) {
            minute.values = Arrays.copyOf(minute.values, minute.values.length + 1);
            minute.values[minute.values.length - 1] = main;
        }
        if (kavg != null) {
            minute.kavgMax = minute.kavgSamples == 0 ? kavg : Math.max(minute.kavgMax, kavg);
            minute.kavgSum += kavg;
            minute.kavgSamples++;
        }
        if (commands != null) {
            minute.commandsSum += commands;
            minute.commandsSamples++;
        }
        return isLate;
    }

    /** Adds a sample to a count if it is above a threshold. Returns the count; null if nothing counts. */
    private Count added(Count known, long atMs, double value, double limitMs, double weight) {
        if (!isAbove(value, limitMs, limitMs * limit("closing_percent") / 100, weight)) {
            return known;
        }
        Count count = known == null ? new Count() : known;
        count.add(atMs, value, isAbove(value, limitMs, limitMs, weight));
        return count;
    }

    /**
     * True if a latency above `least` counts. One slow command among few is not significant: either
     * there are enough commands, or their latency is many times the threshold.
     */
    private boolean isAbove(double value, double limitMs, double least, double weight) {
        return value > least
                && (weight >= limit("enough_commands_per_second_count")
                        || weight * (value / limitMs - 1) >= limit("slow_commands_per_second_count"));
    }

    /** The local disk from which a host was booted is slow and nobody waits for it. */
    private static boolean isLocalBootDisk(String device) {
        return device.startsWith("mpx.") && device.endsWith(":C0:T0:L0");
    }

    private double limit(String name) {
        return limits.get(name);
    }

    private double limitOf(Name name, boolean isGavg) {
        if (isGavg) {
            return limit(name.objectClass.equals("nfs_volume") ? "gavg_nfs_ms" : "gavg_virtual_disk_ms");
        }
        boolean isFlash = name.device.startsWith("eui.") || name.device.startsWith("t10.NVMe");
        return limit(isFlash ? "davg_nvme_ms" : "davg_ms");
    }

    private ShortWindow shortWindow(Name name, Measured each, long endMs, boolean isGavg) {
        for (ShortWindow window : each.shorts) {
            if (window.endMs == endMs && window.isGavg == isGavg) {
                return window;
            }
        }
        ShortWindow window = new ShortWindow();
        window.endMs = endMs;
        window.isGavg = isGavg;
        window.limitMs = limitOf(name, isGavg);
        each.shorts = Arrays.copyOf(each.shorts, each.shorts.length + 1);
        each.shorts[each.shorts.length - 1] = window;
        return window;
    }

    private Minute minute(Measured each, long startMs) {
        for (Minute minute : each.minutes) {
            if (minute.startMs == startMs) {
                return minute;
            }
        }
        Minute minute = new Minute();
        minute.startMs = startMs;
        each.minutes = Arrays.copyOf(each.minutes, each.minutes.length + 1);
        each.minutes[each.minutes.length - 1] = minute;
        return minute;
    }

    /** Emits and removes the 10 s windows that end until a time, in their order. */
    private void closeShorts(Name name, Measured each, long untilMs, Collector<Row> out) {
        Arrays.sort(each.shorts, (one, other) -> Long.compare(one.endMs, other.endMs));
        int closed = 0;
        while (closed < each.shorts.length && each.shorts[closed].endMs <= untilMs) {
            ShortWindow window = each.shorts[closed++];
            each.shortClosedMs = window.endMs;
            if (isNearSlow(each, window)) {
                out.collect(shortRow(name, window));
            }
        }
        if (closed > 0) {
            each.shorts = Arrays.copyOfRange(each.shorts, closed, each.shorts.length);
        }
    }

    /** Emits and removes the minutes that end until a time, in their order. */
    private void closeMinutes(Name name, Measured each, long untilMs, Collector<Row> out) {
        Arrays.sort(each.minutes, (one, other) -> Long.compare(one.startMs, other.startMs));
        int closed = 0;
        while (closed < each.minutes.length && each.minutes[closed].startMs + MINUTE_MS <= untilMs) {
            Minute minute = each.minutes[closed++];
            each.minuteClosedMs = minute.startMs + MINUTE_MS;
            out.collect(minuteRow(name, minute));
        }
        if (closed > 0) {
            each.minutes = Arrays.copyOfRange(each.minutes, closed, each.minutes.length);
        }
    }

    /** True if the latency detector needs a window. Nearly all windows are dropped here. */
    private static boolean isNearSlow(Measured each, ShortWindow window) {
        boolean isSlow = slow(window.main) + slow(window.kavg) > 0;
        int since = isSlow ? 0 : (window.isGavg ? each.gavgSinceSlow : each.davgSinceSlow) + 1;
        since = Math.min(since, WINDOWS_AFTER_SLOW + 1);
        if (window.isGavg) {
            each.gavgSinceSlow = since;
        } else {
            each.davgSinceSlow = since;
        }
        return since <= WINDOWS_AFTER_SLOW;
    }

    private Row shortRow(Name name, ShortWindow window) {
        ObjectNode told = json.createObjectNode();
        told.put("short_window_seconds", SHORT_MS / 1000);
        told.put("short_window_end", text(window.endMs - 1));
        told.put("last_at", text(window.lastMs));
        told.put("object_class", name.objectClass);
        told.put("device", name.device);
        told.put("origin", name.origin);
        told.put("metric", window.isGavg ? "gavg" : "davg");
        told.put("limit_ms", window.limitMs);
        told.put("samples", window.samples);
        write(told, "", window.main);
        write(told, "kavg_", window.kavg);
        return Row.of("short_window", name.owner, name.host, name.runId, utc(window.lastMs), told.toString());
    }

    private static int slow(Count count) {
        return count == null ? 0 : count.slow;
    }

    private static void write(ObjectNode told, String prefix, Count found) {
        Count count = found == null ? NOTHING : found;
        boolean isSlow = count.slow > 0;
        told.put(prefix + "slow", count.slow);
        told.put(prefix + "warm", count.warm);
        told.put(prefix + "first", isSlow ? text(count.firstMs) : null);
        told.put(prefix + "last", isSlow ? text(count.lastMs) : null);
        told.put(prefix + "peak_ms", isSlow ? count.peak : null);
        told.put(prefix + "sum_ms", count.sum);
    }

    private Row minuteRow(Name name, Minute minute) {
        ObjectNode told = json.createObjectNode();
        told.put("event_id", eventId(name, minute.startMs));
        told.put("detector", "latency_windows");
        told.put("revision", minute.samples);
        told.put("is_deleted", 0);
        told.put("run_id", name.runId);
        told.put("host", name.host);
        told.put("object_class", name.objectClass);
        told.put("device", name.device);
        told.put("origin", name.origin);
        told.put("window_seconds", MINUTE_MS / 1000);
        told.put("window_start", utc(minute.startMs));
        told.put("window_end", utc(minute.startMs + MINUTE_MS));
        told.put("avg_davg_ms", minute.sum / minute.samples);
        told.put("p95_davg_ms", percentile(minute.values, 0.95));
        told.put("max_davg_ms", minute.max);
        told.put("avg_kavg_ms", minute.kavgSamples == 0 ? null : minute.kavgSum / minute.kavgSamples);
        told.put("max_kavg_ms", minute.kavgSamples == 0 ? null : minute.kavgMax);
        told.put("commands", minute.commandsSamples == 0 ? null : minute.commandsSum / minute.commandsSamples * 60);
        told.put("samples", minute.samples);
        return Row.of("window", name.owner, name.host, name.runId, utc(minute.startMs), told.toString());
    }

    private String lateMessage(Name name, long atMs) {
        ObjectNode told = json.createObjectNode();
        told.put("event_time", utc(atMs));
        told.put("host", name.host);
        told.put("object_class", name.objectClass);
        told.put("device", name.device);
        told.put("run_id", name.runId);
        return told.toString();
    }

    /** The identity of a minute. sql/views/latency_windows.sql computes the same. */
    private String eventId(Name object, long startMs) {
        StringBuilder name = new StringBuilder();
        if (object.host != null) {
            name.append(object.host).append('|');
        }
        name.append(object.objectClass).append('|').append(object.device).append('|').append(text(startMs));
        if (!object.origin.equals("esxtop")) {
            name.append('|').append(object.origin);
        }
        StringBuilder id = new StringBuilder(36);
        byte[] digest = md5.digest(name.toString().getBytes(StandardCharsets.UTF_8));
        for (int at = 0; at < digest.length; at++) {
            if (at == 4 || at == 6 || at == 8 || at == 10) {
                id.append('-');
            }
            id.append(Character.forDigit(digest[at] >> 4 & 15, 16)).append(Character.forDigit(digest[at] & 15, 16));
        }
        return id.toString();
    }

    /** Interpolates linearly between the two nearest values, like ClickHouse's quantileExactInclusive. */
    static double percentile(double[] values, double share) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        double place = share * (sorted.length - 1);
        int below = (int) place;
        int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
    }

    /** Returns the value of an object of a row; null if it is missing or not finite. */
    private static Double value(Row row, int field, int number) {
        Object[] values = (Object[]) row.getField(field);
        return values != null && values[number] instanceof Double value && Double.isFinite(value) ? value : null;
    }

    /** Parses `2024-05-06T07:08:09.123Z` to ms since 1970; -1 if it is not such a time. */
    private long parsed(String text) {
        if (text == null) {
            return -1;
        }
        // All samples of a row of esxtop have the same time.
        if (!text.equals(parsedText)) {
            parsedText = text;
            try {
                long ms = Instant.parse(text).toEpochMilli();
                parsedMs = ms >= 0 && ms < LAST_MS ? ms : -1;
            } catch (RuntimeException error) {
                parsedMs = -1;
                failed.inc();
            }
        }
        return parsedMs;
    }

    /** `2024-05-06T07:08:09.123Z`. */
    private static String utc(long ms) {
        String text = Instant.ofEpochMilli(ms).toString();
        return text.length() == 24 ? text : text.substring(0, 19) + ".000Z";
    }

    /** `2024-05-06 07:08:09.123`. */
    private static String text(long ms) {
        return utc(ms).substring(0, 23).replace('T', ' ');
    }
}
