package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code contains_any(text, literals)}: whether the text holds at least one of the literals, which
 * are separated by line feeds. NULL text holds nothing.
 *
 * <p>Nearly every log line matters to no detector. One pass of an Aho-Corasick automaton over the
 * line throws it away in well under a microsecond, however many literals there are: detectors may
 * be added without making the job slower.
 */
public final class ContainsAny extends ScalarFunction {

    /** The next state where a literal has been read to its end. */
    private static final short FOUND = -1;

    private transient String builtFrom;
    /** Of a byte, its column in {@link #next}; 0 for those that stand in no literal. */
    private transient byte[] columns;
    /** Of a state and a byte's column, the next state; rows are {@link #width} wide. */
    private transient short[] next;
    private transient int width;

    public Boolean eval(String text, String joinedLiterals) {
        if (text == null) {
            return false;
        }
        // The literals are a constant of the query: they are built in once, not once a line.
        if (!joinedLiterals.equals(builtFrom)) {
            build(joinedLiterals.split("\n"));
            builtFrom = joinedLiterals;
        }
        int state = 0;
        // Literals are ASCII: what Latin-1 lacks becomes a question mark, which hides none.
        for (byte each : text.getBytes(StandardCharsets.ISO_8859_1)) {
            state = next[state * width + columns[each & 0xFF]];
            if (state == FOUND) {
                return true;
            }
        }
        return false;
    }

    private void build(String[] literals) {
        columns = new byte[256];
        width = 1;
        int mostStates = 1;
        for (String literal : literals) {
            for (byte each : bytesOf(literal)) {
                if (columns[each] == 0) {
                    columns[each] = (byte) width++;
                }
            }
            mostStates += literal.length();
        }
        if (mostStates > Short.MAX_VALUE) {
            throw new IllegalArgumentException("The literals are too long: " + mostStates);
        }
        short[] table = new short[mostStates * width];
        int states = grow(table, literals);
        follow(table, states);
        next = Arrays.copyOf(table, states * width);
    }

    /** The literals as a tree of states; 0 is "no such way yet". Returns the number of states. */
    private int grow(short[] table, String[] literals) {
        int states = 1;
        for (String literal : literals) {
            int state = 0;
            byte[] bytes = bytesOf(literal);
            for (int at = 0; at < bytes.length; at++) {
                int way = state * width + columns[bytes[at]];
                if (table[way] == FOUND) {
                    break;
                }
                if (at == bytes.length - 1) {
                    table[way] = FOUND;
                } else if (table[way] == 0) {
                    table[way] = (short) states++;
                }
                state = table[way];
            }
        }
        return states;
    }

    /** Where a state has no way of its own, it takes that of its longest suffix. */
    private void follow(short[] table, int states) {
        int[] suffixes = new int[states];
        ArrayDeque<Integer> waiting = new ArrayDeque<>();
        for (int column = 0; column < width; column++) {
            if (table[column] > 0) {
                waiting.add((int) table[column]);
            }
        }
        while (!waiting.isEmpty()) {
            int state = waiting.remove();
            int suffix = suffixes[state];
            for (int column = 0; column < width; column++) {
                int way = state * width + column;
                int suffixWay = suffix * width + column;
                if (table[way] > 0 && table[suffixWay] != FOUND) {
                    suffixes[table[way]] = table[suffixWay];
                    waiting.add((int) table[way]);
                } else if (table[way] != FOUND) {
                    table[way] = table[suffixWay];
                }
            }
        }
    }

    private static byte[] bytesOf(String literal) {
        if (literal.isEmpty() || !literal.chars().allMatch(each -> each < 128)) {
            throw new IllegalArgumentException("A literal is ASCII and not empty: " + literal);
        }
        return literal.getBytes(StandardCharsets.US_ASCII);
    }
}
