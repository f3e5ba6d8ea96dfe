package io.github.stunwatch;

import java.io.IOException;
import java.util.List;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.util.Collector;

/**
 * Reads records (schemas/log_line.v1) as Flink's JSON format does, without those that the job does
 * not need. {@link LineFilter} drops them from their bytes: parsing JSON costs several times as
 * much as the rest of what a line costs.
 *
 * <p>Each row may have two more columns. {@link PrefilteredJsonFormatFactory#IS_FIRST_SEEN} is TRUE
 * for a host's first live syslog line in a ten-minute interval ({@link HostsSeen}). {@link
 * PrefilteredJsonFormatFactory#RECORD} is the message itself, which Python parses: a column for each
 * field would cost more.
 */
public final class PrefilteredJson implements DeserializationSchema<RowData> {

    private static final long serialVersionUID = 1L;

    private final DeserializationSchema<RowData> json;
    private final TypeInformation<RowData> produced;
    private final String[] literals;
    private final int longest;
    /** The columns to add, in this order. */
    private final List<String> added;
    /** The columns of kind, source, run_id, host and event_time; none without the mark. */
    private final int[] columns;

    private transient LineFilter filter;
    private transient HostsSeen hosts;

    /**
     * @param json Flink's format for the physical columns
     * @param added the columns to add to those of {@code json}, in this order
     * @param columns of kind, source, run_id, host and event_time; none if no mark is wanted
     */
    public PrefilteredJson(
            DeserializationSchema<RowData> json,
            TypeInformation<RowData> produced,
            String[] literals,
            int longest,
            List<String> added,
            int[] columns) {
        this.json = json;
        this.produced = produced;
        this.literals = literals;
        this.longest = longest;
        this.added = added;
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
        json.deserialize(message, added.isEmpty() ? out : new Adding(message, out));
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

    /** Passes the rows of a message on with the added columns. */
    private final class Adding implements Collector<RowData> {

        private final byte[] message;
        private final Collector<RowData> out;

        Adding(byte[] message, Collector<RowData> out) {
            this.message = message;
            this.out = out;
        }

        @Override
        public void collect(RowData row) {
            if (row == null) {
                return;
            }
            GenericRowData parsed = (GenericRowData) row;
            int arity = parsed.getArity();
            GenericRowData more = new GenericRowData(parsed.getRowKind(), arity + added.size());
            for (int column = 0; column < arity; column++) {
                more.setField(column, parsed.getField(column));
            }
            for (int number = 0; number < added.size(); number++) {
                boolean isRecord = added.get(number).equals(PrefilteredJsonFormatFactory.RECORD);
                more.setField(
                        arity + number, isRecord ? StringData.fromBytes(message) : isFirstSeen(parsed));
            }
            out.collect(more);
        }

        @Override
        public void close() {
            out.close();
        }
    }
}
