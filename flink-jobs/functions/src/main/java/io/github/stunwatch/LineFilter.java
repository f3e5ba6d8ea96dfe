package io.github.stunwatch;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Decides from the bytes of a message whether the job needs its record (schemas/log_line.v1).
 *
 * <p>It reads the names and values of the JSON object in one pass and does not decode them. A
 * record is not needed if it is a line, its {@code message} contains no literal, and its host is
 * already marked. In every other case, and if anything is unusual, the record is needed: another
 * kind, an escaped name or host, a time that occurs twice, a nested value, another encoding, a
 * syntax error. So a wrong decision costs time and loses nothing. Spaces between the tokens change
 * nothing.
 */
final class LineFilter {

    private static final VarHandle EIGHT =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long QUOTES = 0x2222222222222222L;
    private static final long BACKSLASHES = 0x5C5C5C5C5C5C5C5CL;

    private static final byte[] ASCII_ESCAPE = ascii("\\u00");
    private static final byte[] LINE = ascii("line");
    private static final byte[] SYSLOG = ascii("syslog");
    private static final byte[] LIVE = ascii("live");

    private static final byte[] EVENT_TIME = ascii("event_time");
    private static final byte[] KIND = ascii("kind");
    private static final byte[] SOURCE = ascii("source");
    private static final byte[] HOST = ascii("host");
    private static final byte[] RUN_ID = ascii("run_id");
    private static final byte[] MESSAGE = ascii("message");

    private final Literals literals;
    private final int longest;

    /** The bytes being read and the position of the next byte. */
    private byte[] bytes;
    private int at;
    /** The position of the first byte and after the last byte of the string read last. */
    private int from;
    private int to;
    /** Whether the string read last contains an escape sequence. */
    private boolean isEscaped;
    /** Whether one of them may be an ASCII character that a literal contains without an escape. */
    private boolean mayHideLiteral;

    /**
     * @param literals what to search in messages
     * @param longest a message that may have more characters than this is needed: it is counted
     */
    LineFilter(String[] literals, int longest) {
        List<String> sought = new ArrayList<>();
        for (String literal : literals) {
            sought.add(escaped(literal));
        }
        this.literals = new Literals(sought);
        this.longest = longest;
    }

    /** Returns whether the job needs the record in these bytes. */
    boolean needs(byte[] message, HostsSeen hosts, long nowMs) {
        if (message.length > longest) {
            return true;
        }
        bytes = message;
        at = 0;
        return !isLineWithoutUse(hosts, nowMs);
    }

    private boolean isLineWithoutUse(HostsSeen hosts, long nowMs) {
        boolean isLine = false;
        boolean hasSource = false;
        boolean isSyslog = false;
        boolean hasRun = false;
        boolean isLive = false;
        int timeFrom = -1;
        int timeTo = -1;
        int hostFrom = -1;
        int hostTo = -1;
        if (!takes('{')) {
            return false;
        }
        do {
            if (!readString() || isEscaped) {
                return false;
            }
            int nameFrom = from;
            int nameTo = to;
            if (!takes(':')) {
                return false;
            }
            skipSpaces();
            if (at == bytes.length) {
                return false;
            }
            boolean isString = bytes[at] == '"';
            if (!(isString ? readString() : skipScalar())) {
                return false;
            }
            if (isSame(MESSAGE, nameFrom, nameTo)) {
                if (!isString || mayHideLiteral || literals.isIn(bytes, from, to)) {
                    return false;
                }
            } else if (isSame(KIND, nameFrom, nameTo)) {
                if (!isString || !isSame(LINE, from, to)) {
                    return false;
                }
                isLine = true;
            } else if (isSame(SOURCE, nameFrom, nameTo)) {
                if (!isString || isEscaped || hasSource) {
                    return false;
                }
                hasSource = true;
                isSyslog = isSame(SYSLOG, from, to);
            } else if (isSame(RUN_ID, nameFrom, nameTo)) {
                if (!isString || isEscaped || hasRun) {
                    return false;
                }
                hasRun = true;
                isLive = isSame(LIVE, from, to);
            } else if (isSame(HOST, nameFrom, nameTo)) {
                if (!isString || isEscaped || hostFrom >= 0) {
                    return false;
                }
                hostFrom = from;
                hostTo = to;
            } else if (isSame(EVENT_TIME, nameFrom, nameTo)) {
                if (!isString || isEscaped || timeFrom >= 0) {
                    return false;
                }
                timeFrom = from;
                timeTo = to;
            }
        } while (takes(','));
        if (!takes('}') || !isLine) {
            return false;
        }
        boolean hasMark = isSyslog && isLive && hostFrom >= 0 && timeFrom >= 0;
        return !hasMark
                || !hosts.wouldBeFirst(text(hostFrom, hostTo), text(timeFrom, timeTo), nowMs);
    }

    /** Skips spaces and this character. Returns whether it is there. */
    private boolean takes(char wanted) {
        skipSpaces();
        if (at < bytes.length && bytes[at] == wanted) {
            at++;
            return true;
        }
        return false;
    }

    private void skipSpaces() {
        // Nearly always there is none: one comparison tells.
        while (at < bytes.length
                && bytes[at] <= ' '
                && (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t')) {
            at++;
        }
    }

    /** Reads a string and its quotes. Returns whether there is a whole one. */
    private boolean readString() {
        if (!takes('"')) {
            return false;
        }
        from = at;
        isEscaped = false;
        mayHideLiteral = false;
        while (true) {
            at = nextQuoteOrBackslash(at);
            if (at + 1 >= bytes.length) {
                return false;
            }
            if (bytes[at] == '"') {
                to = at++;
                return true;
            }
            isEscaped = true;
            // JSON has only two ways to escape a printable ASCII character that needs none.
            mayHideLiteral |= bytes[at + 1] == '/' || isSame(ASCII_ESCAPE, at, at + ASCII_ESCAPE.length);
            at += 2;
        }
    }

    /** Returns the position of the next quote or backslash; at or after the end if there is none. */
    private int nextQuoteOrBackslash(int begin) {
        int next = begin;
        for (; next <= bytes.length - Long.BYTES; next += Long.BYTES) {
            long eight = (long) EIGHT.get(bytes, next);
            long found = zeroBytes(eight ^ QUOTES) | zeroBytes(eight ^ BACKSLASHES);
            if (found != 0) {
                return next + Long.numberOfTrailingZeros(found) / Byte.SIZE;
            }
        }
        while (next < bytes.length && bytes[next] != '"' && bytes[next] != '\\') {
            next++;
        }
        return next;
    }

    /** Returns the highest bit of bytes that are zero. The lowest such bit is right. */
    private static long zeroBytes(long eight) {
        return eight - 0x0101010101010101L & ~eight & 0x8080808080808080L;
    }

    /** Skips a number, true, false or null. Returns whether there is one. */
    private boolean skipScalar() {
        int begin = at;
        while (at < bytes.length
                && (bytes[at] >= '0' && bytes[at] <= '9'
                        || bytes[at] >= 'a' && bytes[at] <= 'z'
                        || bytes[at] == '-' || bytes[at] == '+' || bytes[at] == '.' || bytes[at] == 'E')) {
            at++;
        }
        return at > begin;
    }

    private boolean isSame(byte[] wanted, int begin, int end) {
        if (end - begin != wanted.length || end > bytes.length) {
            return false;
        }
        for (int offset = 0; offset < wanted.length; offset++) {
            if (bytes[begin + offset] != wanted[offset]) {
                return false;
            }
        }
        return true;
    }

    private String text(int begin, int end) {
        return new String(bytes, begin, end - begin, StandardCharsets.UTF_8);
    }

    /** Returns a literal as it is inside a JSON string. */
    private static String escaped(String literal) {
        if (literal.chars().anyMatch(each -> each < ' ')) {
            throw new IllegalArgumentException("A literal has no control characters: " + literal);
        }
        return literal.replace("\\", "\\\\").replace("\"", "\\\"");
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
