package io.github.stunwatch;

import java.io.IOException;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.util.Collector;

/**
 * Reads records (schemas/log_line.v1) as Flink's JSON format does, without those that the job does
 * not need. {@link LineFilter} drops them from their bytes: parsing JSON costs several times as
 * much as the rest of what a line costs.
 *
 * <p>Each row may have one more column, {@link PrefilteredJsonFormatFactory#IS_FIRST_SEEN}: TRUE
 * for a host's first live syslog line in a ten-minute interval ({@link HostsSeen}).
 */
public final class PrefilteredJson implements DeserializationSchema<RowData> {

    private static final long serialVersionUID = 1L;

    private final DeserializationSchema<RowData> json;
    private final TypeInformation<RowData> produced;
    private final String[] literals;
    private final int longest;
    /** The columns of kind, source, run_id, host and event_time; null without the mark. */
    private final int[] columns;

    private transient LineFilter filter;
    private transient HostsSeen hosts;

    /**
     * @param json Flink's format for the physical columns
     * @param columns of kind, source, run_id, host and event_time; null if no mark is wanted
     */
    public PrefilteredJson(
            DeserializationSchema<RowData> json,
            TypeInformation<RowData> produced,
            String[] literals,
            int longest,
            int[] columns) {
        this.json = json;
        this.produced = produced;
        this.literals = literals;
        this.longest = longest;
        this.columns = columns;
    }

    @Override
    public void open(InitializationContext context) throws Exception {
        json.open(context);
        filter = new LineFilter(literals, longest);
        hosts = new HostsSeen();
        hosts.register(context.getMetricGroup());
    }

    @Override
    public void deserialize(byte[] message, Collector<RowData> out) throws IOException {
        if (message == null || !filter.needs(message, hosts, System.currentTimeMillis())) {
            return;
        }
        json.deserialize(message, columns == null ? out : new Marking(out));
    }

    @Override
    public RowData deserialize(byte[] message) {
        throw new UnsupportedOperationException("A message may have any number of rows.");
    }

    @Override
    public boolean isEndOfStream(RowData row) {
        return false;
    }

    @Override
    public TypeInformation<RowData> getProducedType() {
        return produced;
    }

    private boolean isFirstSeen(RowData row) {
        return "line".equals(text(row, 0))
                && "syslog".equals(text(row, 1))
                && "live".equals(text(row, 2))
                && hosts.isFirst(text(row, 3), text(row, 4), System.currentTimeMillis());
    }

    private String text(RowData row, int number) {
        int column = columns[number];
        return row.isNullAt(column) ? null : row.getString(column).toString();
    }

    /** Passes rows on with the mark as their last column. */
    private final class Marking implements Collector<RowData> {

        private final Collector<RowData> out;

        Marking(Collector<RowData> out) {
            this.out = out;
        }

        @Override
        public void collect(RowData row) {
            if (row == null) {
                return;
            }
            GenericRowData parsed = (GenericRowData) row;
            int arity = parsed.getArity();
            GenericRowData marked = new GenericRowData(parsed.getRowKind(), arity + 1);
            for (int column = 0; column < arity; column++) {
                marked.setField(column, parsed.getField(column));
            }
            marked.setField(arity, isFirstSeen(parsed));
            out.collect(marked);
        }

        @Override
        public void close() {
            out.close();
        }
    }
}
