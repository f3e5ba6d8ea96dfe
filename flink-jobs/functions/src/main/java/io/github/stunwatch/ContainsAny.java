package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import org.apache.flink.metrics.Counter;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * {@code contains_any(text, literals, longest)}: TRUE if the text contains at least one of the
 * literals, which are separated by line feeds. FALSE if the text is NULL.
 *
 * <p>A text of more than {@code longest} characters (code points) is not searched: no host writes
 * such a line, and a forged one must not take the detectors' time. The result is FALSE, and the
 * metric {@code unsearched_lines} counts the text.
 *
 * <p>Nearly all log lines are irrelevant to every detector. One pass of an Aho-Corasick automaton
 * rejects such a line in well under a microsecond, whatever the number of literals: more detectors
 * do not make the job slower.
 */
public final class ContainsAny extends ScalarFunction {

    /** The next state after the last character of a literal. */
    private static final short FOUND = -1;

    private transient String builtFrom;
    /** The column of a byte in {@link #next}; 0 for bytes that occur in no literal. */
    private transient byte[] columns;
    /** The next state by state and column of a byte; rows are {@link #width} wide. */
    private transient short[] next;
    private transient int width;
    private transient Counter unsearched;

    @Override
    public void open(FunctionContext context) {
        unsearched = context.getMetricGroup().counter("unsearched_lines");
    }

    public Boolean eval(String text, String joinedLiterals, Integer longest) {
        if (text == null) {
            return false;
        }
        // Nearly every text has fewer UTF-16 units than that, and length() costs nothing.
        if (text.length() > longest && text.codePointCount(0, text.length()) > longest) {
            unsearched.inc();
            return false;
        }
        // The literals are a constant of the query: build the automaton once, not for every line.
        if (!joinedLiterals.equals(builtFrom)) {
            build(joinedLiterals.split("\n"));
            builtFrom = joinedLiterals;
        }
        int state = 0;
        // Literals are ASCII: replacing characters outside Latin-1 by question marks hides none.
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

    /** Builds the trie of the literals; 0 is "no transition yet". Returns the number of states. */
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

    /** Fills missing transitions of a state with those of its longest suffix. */
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
