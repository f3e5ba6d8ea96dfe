package io.github.stunwatch;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code is_first_seen(host, event_time)}: TRUE for the host's first line in a ten-minute
 * interval; FALSE for lines in an interval before the host's newest.
 *
 * <p>Of millions of lines it passes only enough to know which hosts send lines. Each task has its
 * own memory, which is empty after a restart: a line of a host may then pass again, which does no
 * harm. A line dated in the future counts as of now: otherwise a wrong clock would hide the host
 * until that date.
 */
public final class IsFirstSeen extends ScalarFunction {

    /** {@code 2012-03-23T16:2} of {@code 2012-03-23T16:22:51.876Z}. */
    private static final int STRETCH_LENGTH = 15;

    private static final int MOST_HOSTS = 100_000;

    private transient Map<String, String> stretches;
    private transient Counter evicted;
    /** The current interval of the wall clock, and its end in ms since 1970. */
    private transient String now;
    private transient long nowUntil;

    @Override
    public void open(FunctionContext context) {
        evicted = context.getMetricGroup().counter("hosts_evicted");
        context.getMetricGroup().gauge("hosts_known", () -> stretches == null ? 0 : stretches.size());
    }

    @Override
    public boolean isDeterministic() {
        return false;
    }

    public Boolean eval(String host, String eventTime) {
        return isFirst(host, eventTime, System.currentTimeMillis());
    }

    boolean isFirst(String host, String eventTime, long nowMs) {
        if (host == null || host.isEmpty() || eventTime == null || eventTime.length() < STRETCH_LENGTH) {
            return false;
        }
        if (stretches == null) {
            stretches = new HostsSeenLast();
        }
        String time = compare(eventTime, stretchOf(nowMs)) > 0 ? now : eventTime;
        // get() also marks the host as most recently used, whatever the time of the line.
        String last = stretches.get(host);
        if (last != null && compare(time, last) <= 0) {
            return false;
        }
        stretches.put(host, time.substring(0, STRETCH_LENGTH));
        return true;
    }

    int known() {
        return stretches == null ? 0 : stretches.size();
    }

    private String stretchOf(long nowMs) {
        if (now == null || nowMs >= nowUntil) {
            long tenMinutes = 600_000L;
            nowUntil = (nowMs / tenMinutes + 1) * tenMinutes;
            now = Instant.ofEpochMilli(nowMs).toString().substring(0, STRETCH_LENGTH);
        }
        return now;
    }

    private static int compare(String eventTime, String stretch) {
        for (int at = 0; at < STRETCH_LENGTH; at++) {
            int difference = eventTime.charAt(at) - stretch.charAt(at);
            if (difference != 0) {
                return difference;
            }
        }
        return 0;
    }

    /**
     * Forged lines with ever new host names must not fill the memory: the least recently used host
     * is evicted first.
     */
    private final class HostsSeenLast extends LinkedHashMap<String, String> {
        HostsSeenLast() {
            super(16, 0.75f, true);
        }

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            boolean isFull = size() > MOST_HOSTS;
            if (isFull && evicted != null) {
                evicted.inc();
            }
            return isFull;
        }
    }
}
