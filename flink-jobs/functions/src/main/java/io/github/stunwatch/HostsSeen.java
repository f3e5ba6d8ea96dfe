package io.github.stunwatch;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.MetricGroup;

/**
 * The hosts that sent lines or samples, each with its newest ten-minute interval.
 *
 * <p>Of millions of lines it passes only enough to know which hosts send lines. Each task has its
 * own memory, which is empty after a restart: a line of a host may then pass again, which does no
 * harm. A line dated in the future counts as of now: otherwise a wrong clock would hide the host
 * until that date.
 */
final class HostsSeen {

    /** {@code 2012-03-23T16:2} of {@code 2012-03-23T16:22:51.876Z}. */
    private static final int STRETCH_LENGTH = 15;

    private static final int MOST_HOSTS = 100_000;

    private final Map<String, String> stretches = new LeastRecentlyUsed();
    private Counter evicted;
    /** The current interval of the wall clock, and its end in ms since 1970. */
    private String now;
    private long nowUntil;

    void register(MetricGroup metrics) {
        evicted = metrics.counter("hosts_evicted");
        metrics.gauge("hosts_known", stretches::size);
    }

    /**
     * Marks the host. TRUE for its first line in an interval; FALSE for lines in an interval before
     * its newest.
     */
    boolean isFirst(String host, String eventTime, long nowMs) {
        if (!wouldBeFirst(host, eventTime, nowMs)) {
            return false;
        }
        String time = compare(eventTime, stretchOf(nowMs)) > 0 ? now : eventTime;
        stretches.put(host, time.substring(0, STRETCH_LENGTH));
        return true;
    }

    /** What {@link #isFirst} would return. It does not change the host's interval. */
    boolean wouldBeFirst(String host, String eventTime, long nowMs) {
        if (host == null || host.isEmpty() || eventTime == null || eventTime.length() < STRETCH_LENGTH) {
            return false;
        }
        String time = compare(eventTime, stretchOf(nowMs)) > 0 ? now : eventTime;
        // get() also marks the host as most recently used, whatever the time of the line.
        String last = stretches.get(host);
        return last == null || compare(time, last) > 0;
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
    private final class LeastRecentlyUsed extends LinkedHashMap<String, String> {
        LeastRecentlyUsed() {
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
