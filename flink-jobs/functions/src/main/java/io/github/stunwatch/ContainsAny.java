package io.github.stunwatch;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
 * <p>{@link PrefilteredJson} has dropped nearly all lines without a literal before. This function
 * decides: it reads the message, not its JSON.
 */
public final class ContainsAny extends ScalarFunction {

    /** What was prepared, by the second argument. All calls in a query share one object. */
    private transient Map<String, Literals> prepared;
    private transient Counter unsearched;

    @Override
    public void open(FunctionContext context) {
        prepared = new HashMap<>();
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
        // The literals are constants of the query: prepare them once, not for every line.
        Literals literals =
                prepared.computeIfAbsent(joinedLiterals, each -> new Literals(List.of(each.split("\n"))));
        // Literals are ASCII: replacing characters outside Latin-1 by question marks hides none.
        byte[] bytes = text.getBytes(StandardCharsets.ISO_8859_1);
        return literals.isIn(bytes, 0, bytes.length);
    }
}
