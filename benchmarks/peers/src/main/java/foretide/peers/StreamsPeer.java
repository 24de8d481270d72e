package foretide.peers;

import foretide.peers.Workload.Latest;
import foretide.peers.Workload.Options;
import foretide.peers.Workload.Request;
import foretide.peers.Workload.Slow;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * URL count on Kafka Streams: requests -> extract -> a topic by URL -> count.
 *
 * <p>It has no exchange but topics, so partitions of the topic are the tasks of extract, and its rows come from a topic
 * where the other peers make them.
 */
public final class StreamsPeer {
    private static final String COUNTS = "counts";

    private StreamsPeer() {}

    public static void main(String[] args) {
        Workload.run(args, StreamsPeer::run);
    }

    private static void run(Options options) throws Exception {
        if (options.isThroughput()) {
            fill(options);
        }
        KafkaStreams streams = new KafkaStreams(topology(options).build(), settings(options));
        streams.start();
        if (options.isThroughput()) {
            Workload.follow(options.number("rows"));
        } else {
            while (streams.state() != KafkaStreams.State.RUNNING) {
                Thread.sleep(100);
            }
            Workload.serve();
        }
    }

    private static StreamsBuilder topology(Options options) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.inMemoryKeyValueStore(COUNTS), Serdes.String(), Serdes.Long()));
        Slow slow = options.slow();
        Repartitioned<String, String> byUrl =
                Repartitioned.<String, String>as("urls").withNumberOfPartitions(Workload.COUNTERS);
        KStream<String, String> urls = builder.<String, String>stream(options.text("in"))
                .process(() -> new Extract(slow)).repartition(byUrl);
        if (options.isThroughput()) {
            urls.process(() -> new Count(Latest.create()), COUNTS);
        } else {
            urls.process(() -> new Count(null), COUNTS).to(options.text("out"));
        }
        return builder;
    }

    private static Properties settings(Options options) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, options.text("in") + "-streams");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.text("servers"));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir"));
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, (int) options.number("tasks") + Workload.COUNTERS);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        if (!options.isThroughput()) {
            settings.put(StreamsConfig.producerPrefix("linger.ms"), "0"); // 100 ms by default
        }
        return settings;
    }

    /** Write all rows to the topic. */
    private static void fill(Options options) {
        try (Producer<String, String> producer = new KafkaProducer<>(Workload.producer(options))) {
            long rows = options.number("rows");
            for (long row = 0; row < rows; row++) {
                String line = Workload.line(row);
                String json = "{\"row\":" + row + ",\"due\":0,\"line\":\"" + line + "\"}";
                producer.send(new ProducerRecord<>(options.text("in"), (int) (row % Workload.READERS), null, json));
            }
        }
    }

    /** The URL as the key; row and due time as the value. */
    private static final class Extract extends ContextualProcessor<String, String, String, String> {
        private final Slow slow;

        Extract(Slow slow) {
            this.slow = slow;
        }

        @Override
        public void process(Record<String, String> record) {
            Request request = Request.parse(record.value());
            slow.work(context().taskId().partition(), request.row());
            String url = Workload.url(request.text());
            context().forward(record.withKey(url).withValue(request.row() + " " + request.due()));
        }
    }

    private static final class Count extends ContextualProcessor<String, String, String, String> {
        private final Latest latest;
        private KeyValueStore<String, Long> counts;

        Count(Latest latest) {
            this.latest = latest;
        }

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore(COUNTS);
        }

        @Override
        public void process(Record<String, String> record) {
            Long before = counts.get(record.key());
            long count = before == null ? 1 : before + 1;
            counts.put(record.key(), count);
            if (latest != null) {
                latest.update(record.key(), count);
                return;
            }
            String[] parts = record.value().split(" ");
            String result = Workload.result(Long.parseLong(parts[0]), Long.parseLong(parts[1]), record.key(), count);
            context().forward(record.withValue(result).withTimestamp(System.currentTimeMillis()));
        }
    }
}
