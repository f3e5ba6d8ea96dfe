package io.github.stunwatch;

import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.format.DecodingFormat;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DeserializationFormatFactory;
import org.apache.flink.table.factories.DynamicTableFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.utils.DataTypeUtils;

/**
 * The format {@code prefiltered-json}: Flink's {@code json}, whose options it takes, for the
 * records that the job needs ({@link PrefilteredJson}).
 */
public final class PrefilteredJsonFormatFactory implements DeserializationFormatFactory {

    public static final String IDENTIFIER = "prefiltered-json";

    /** Metadata of the format, in the order of its columns: see {@link PrefilteredJson}. */
    public static final String IS_FIRST_SEEN = "is_first_seen";

    public static final String RECORD = "record";

    private static final ConfigOption<String> LITERALS =
            ConfigOptions.key("literals")
                    .stringType()
                    .noDefaultValue()
                    .withDescription("The literals to search in messages, separated by line feeds.");

    private static final ConfigOption<Integer> LONGEST =
            ConfigOptions.key("longest")
                    .intType()
                    .noDefaultValue()
                    .withDescription("Kafka messages with more bytes than this are always parsed.");

    private static final List<String> MARKED_BY =
            List.of("kind", "source", "run_id", "host", "event_time");

    @Override
    public String factoryIdentifier() {
        return IDENTIFIER;
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(LITERALS, LONGEST);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return new HashSet<>(json(getClass().getClassLoader()).optionalOptions());
    }

    @Override
    public DecodingFormat<DeserializationSchema<RowData>> createDecodingFormat(
            DynamicTableFactory.Context context, ReadableConfig options) {
        FactoryUtil.validateFactoryOptions(this, options);
        return new Format(
                json(context.getClassLoader()).createDecodingFormat(context, options),
                options.get(LITERALS).split("\n"),
                options.get(LONGEST));
    }

    private static DeserializationFormatFactory json(ClassLoader loader) {
        return FactoryUtil.discoverFactory(loader, DeserializationFormatFactory.class, "json");
    }

    private static final class Format implements DecodingFormat<DeserializationSchema<RowData>> {

        private final DecodingFormat<DeserializationSchema<RowData>> json;
        private final String[] literals;
        private final int longest;
        private List<String> metadata = List.of();

        Format(DecodingFormat<DeserializationSchema<RowData>> json, String[] literals, int longest) {
            this.json = json;
            this.literals = literals;
            this.longest = longest;
        }

        @Override
        public Map<String, DataType> listReadableMetadata() {
            Map<String, DataType> metadata = new LinkedHashMap<>();
            metadata.put(IS_FIRST_SEEN, DataTypes.BOOLEAN().notNull());
            metadata.put(RECORD, DataTypes.STRING().notNull());
            return metadata;
        }

        @Override
        public void applyReadableMetadata(List<String> keys) {
            metadata = List.copyOf(keys);
        }

        @Override
        public DeserializationSchema<RowData> createRuntimeDecoder(
                DynamicTableSource.Context context, DataType physical) {
            Map<String, DataType> readable = listReadableMetadata();
            List<DataTypes.Field> added =
                    metadata.stream()
                            .map(key -> DataTypes.FIELD(key, readable.get(key)))
                            .collect(Collectors.toList());
            boolean isMarked = metadata.contains(IS_FIRST_SEEN);
            return new PrefilteredJson(
                    json.createRuntimeDecoder(context, physical),
                    context.createTypeInformation(DataTypeUtils.appendRowFields(physical, added)),
                    literals,
                    longest,
                    metadata,
                    isMarked ? columnsOf((RowType) physical.getLogicalType()) : new int[0]);
        }

        private static int[] columnsOf(RowType row) {
            int[] columns = MARKED_BY.stream().mapToInt(row::getFieldIndex).toArray();
            for (int number = 0; number < columns.length; number++) {
                if (columns[number] < 0
                        || !row.getTypeAt(columns[number]).is(LogicalTypeRoot.VARCHAR)) {
                    throw new IllegalArgumentException(
                            "The table has no STRING column " + MARKED_BY.get(number));
                }
            }
            return columns;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return json.getChangelogMode();
        }
    }
}
