package io.github.stunwatch;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code is_first_heard(host, event_time)}: whether this is the host's first line in a stretch of
 * ten minutes; older stretches do not count again.
 *
 * <p>Of millions of lines it lets through what it takes to know which hosts speak. Each task
 * remembers for itself, and forgets when it starts anew: then a host is told once more, which does
 * no harm.
 */
public final class IsFirstHeard extends ScalarFunction {

    /** {@code 2012-03-23T16:2} of {@code 2012-03-23T16:22:51.876Z}. */
    private static final int STRETCH_LENGTH = 15;

    private static final int MOST_HOSTS = 100_000;

    private transient Map<String, String> stretches;

    @Override
    public boolean isDeterministic() {
        return false;
    }

    public Boolean eval(String host, String eventTime) {
        if (host == null || host.isEmpty() || eventTime == null || eventTime.length() < STRETCH_LENGTH) {
            return false;
        }
        if (stretches == null) {
            stretches = new HostsHeardLast();
        }
        String last = stretches.get(host);
        if (last != null && compare(eventTime, last) <= 0) {
            return false;
        }
        stretches.put(host, eventTime.substring(0, STRETCH_LENGTH));
        return true;
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

    /** Who writes lines in ever new hosts' names must not fill the memory. */
    private static final class HostsHeardLast extends LinkedHashMap<String, String> {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
            return size() > MOST_HOSTS;
        }
    }
}
