package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;

/**
 * An Aho-Corasick automaton over bytes. It finds any of its literals in one pass, in a time that
 * does not depend on their number. Literals are ASCII and not empty.
 */
final class Automaton {

    /** The next state after the last character of a literal. */
    private static final short FOUND = -1;

    /** The column of a byte in {@link #next}; 0 for bytes that occur in no literal. */
    private final byte[] columns = new byte[256];
    /** The next state by state and column of a byte; rows are {@link #width} wide. */
    private final short[] next;
    private int width = 1;

    /** @throws IllegalArgumentException if a literal is empty or not ASCII, or all are too long. */
    Automaton(Collection<String> literals) {
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

    /** Returns whether the bytes from {@code from} to before {@code to} contain a literal. */
    boolean isIn(byte[] bytes, int from, int to) {
        int state = 0;
        for (int at = from; at < to; at++) {
            state = next[state * width + columns[bytes[at] & 0xFF]];
            if (state == FOUND) {
                return true;
            }
        }
        return false;
    }

    /** Builds the trie of the literals; 0 is "no transition yet". Returns the number of states. */
    private int grow(short[] table, Collection<String> literals) {
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
