package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * Finds any of many literals in bytes. Literals are ASCII and have at least {@link #PAIR}
 * characters.
 *
 * <p>This is the algorithm of Wu and Manber (1994). It looks at a pair of bytes and skips as many
 * bytes as no literal allows to end there. With literals of at least seven characters that is
 * nearly always six, so most bytes are not read at all. Where a literal may end, those with these
 * last bytes are compared.
 */
final class Literals {

    /** How many bytes decide on a skip. */
    static final int PAIR = 2;

    private static final int PAIRS = 1 << 14;

    /** The length of the shortest literal. Of each literal, only so many bytes are skipped by. */
    private final int shortest;
    /** How far to go on by the pair of bytes read last; 0 if a literal's beginning may end there. */
    private final byte[] skips = new byte[PAIRS];
    /** By the same pair: the literals whose first {@link #shortest} bytes end with it. */
    private final byte[][][] ending = new byte[PAIRS][][];

    /** @throws IllegalArgumentException if a literal is too short or not ASCII, or none is given. */
    Literals(Collection<String> literals) {
        List<byte[]> sought = new ArrayList<>();
        for (String literal : literals) {
            if (literal.length() < PAIR || !literal.chars().allMatch(each -> each < 128)) {
                throw new IllegalArgumentException("A literal is two ASCII characters or more: " + literal);
            }
            sought.add(literal.getBytes(StandardCharsets.US_ASCII));
        }
        shortest = sought.stream().mapToInt(each -> Math.min(each.length, Byte.MAX_VALUE)).min().orElseThrow();
        Arrays.fill(skips, (byte) (shortest - PAIR + 1));
        for (byte[] literal : sought) {
            for (int end = PAIR; end <= shortest; end++) {
                int pair = pair(literal, end - 1);
                skips[pair] = (byte) Math.min(skips[pair], shortest - end);
            }
            int last = pair(literal, shortest - 1);
            byte[][] before = ending[last] == null ? new byte[0][] : ending[last];
            ending[last] = Arrays.copyOf(before, before.length + 1);
            ending[last][before.length] = literal;
        }
    }

    /** Returns whether the bytes from {@code from} to before {@code to} contain a literal. */
    boolean isIn(byte[] bytes, int from, int to) {
        int at = from + shortest - 1;
        while (at < to) {
            int pair = pair(bytes, at);
            int skip = skips[pair];
            if (skip > 0) {
                at += skip;
                continue;
            }
            int begin = at - shortest + 1;
            for (byte[] literal : ending[pair]) {
                int end = begin + literal.length;
                if (end <= to && Arrays.equals(bytes, begin, end, literal, 0, literal.length)) {
                    return true;
                }
            }
            at++;
        }
        return false;
    }

    /** Returns the number of the pair that ends here. Bytes beyond ASCII share those of others. */
    private static int pair(byte[] bytes, int end) {
        return (bytes[end - 1] & 0x7F) << 7 | bytes[end] & 0x7F;
    }
}
