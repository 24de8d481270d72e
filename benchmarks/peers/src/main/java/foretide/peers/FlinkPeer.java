package foretide.peers;

import foretide.peers.Workload.Latest;
import foretide.peers.Workload.Options;
import foretide.peers.Workload.Request;
import foretide.peers.Workload.Slow;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.kafka.clients.producer.ProducerRecord;

/** URL count on Apache Flink, in one process: requests -> rebalance -> extract -> keyBy -> count. */
public final class FlinkPeer {
    private static final TypeInformation<Tuple3<Long, Long, String>> REQUEST =
            Types.TUPLE(Types.LONG, Types.LONG, Types.STRING);
    private static final TypeInformation<Tuple4<Long, Long, String, Long>> COUNTED =
            Types.TUPLE(Types.LONG, Types.LONG, Types.STRING, Types.LONG);
    private static final long CHECKPOINT_MILLIS = 60_000;

    private FlinkPeer() {}

    public static void main(String[] args) {
        Workload.run(args, FlinkPeer::run);
    }

    private static void run(Options options) throws Exception {
        StreamExecutionEnvironment env = environment(options);
        DataStream<Tuple4<Long, Long, String, Long>> counts = requests(env, options)
                .rebalance()
                .map(new Extract(options.slow())).returns(REQUEST).setParallelism((int) options.number("tasks"))
                .keyBy(request -> request.f2)
                .map(new Count()).returns(COUNTED).setParallelism(Workload.COUNTERS);
        if (options.isThroughput()) {
            counts.map(new Remember()).returns(COUNTED).sinkTo(new DiscardingSink<>());
            env.executeAsync("url-count");
            Workload.follow(options.number("rows"));
        } else {
            counts.map(each -> Workload.result(each.f0, each.f1, each.f2, each.f3)).returns(Types.STRING)
                    .sinkTo(sink(options));
            JobClient job = env.executeAsync("url-count");
            while (job.getJobStatus().get() != JobStatus.RUNNING) {
                Thread.sleep(100);
            }
            Workload.serve();
        }
    }

    private static StreamExecutionEnvironment environment(Options options) {
        Configuration settings = new Configuration();
        settings.setString("taskmanager.network.adaptive-partitioner.enabled", options.text("adaptive"));
        settings.setString("execution.buffer-timeout.interval", options.isThroughput() ? "100 ms" : "0 ms");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(Workload.READERS, settings);
        env.getConfig().enableObjectReuse();
        env.enableCheckpointing(CHECKPOINT_MILLIS);
        return env;
    }

    private static DataStream<Tuple3<Long, Long, String>> requests(StreamExecutionEnvironment env, Options options) {
        if (options.isThroughput()) {
            return env.fromSequence(0, options.number("rows") - 1)
                    .map(row -> Tuple3.of(row, 0L, Workload.line(row))).returns(REQUEST);
        }
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(options.text("servers"))
                .setTopics(options.text("in"))
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), "requests").map(text -> {
            Request request = Request.parse(text);
            return Tuple3.of(request.row(), request.due(), request.text());
        }).returns(REQUEST);
    }

    private static KafkaSink<String> sink(Options options) {
        String topic = options.text("out");
        KafkaRecordSerializationSchema<String> record = (text, context, timestamp) ->
                new ProducerRecord<>(topic, text.getBytes(StandardCharsets.UTF_8)); // its timestamp is that of sending
        return KafkaSink.<String>builder()
                .setBootstrapServers(options.text("servers"))
                .setProperty("linger.ms", "0")
                .setProperty("acks", "all")
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setRecordSerializer(record)
                .build();
    }

    private static final class Extract extends RichMapFunction<Tuple3<Long, Long, String>, Tuple3<Long, Long, String>> {
        private final Slow slow;

        Extract(Slow slow) {
            this.slow = slow;
        }

        @Override
        public Tuple3<Long, Long, String> map(Tuple3<Long, Long, String> request) {
            slow.work(getRuntimeContext().getTaskInfo().getIndexOfThisSubtask(), request.f0);
            return Tuple3.of(request.f0, request.f1, Workload.url(request.f2));
        }
    }

    private static final class Count
            extends RichMapFunction<Tuple3<Long, Long, String>, Tuple4<Long, Long, String, Long>> {
        private transient ValueState<Long> requests;

        @Override
        public void open(OpenContext context) {
            requests = getRuntimeContext().getState(new ValueStateDescriptor<>("requests", Types.LONG));
        }

        @Override
        public Tuple4<Long, Long, String, Long> map(Tuple3<Long, Long, String> request) throws Exception {
            Long before = requests.value();
            long count = before == null ? 1 : before + 1;
            requests.update(count);
            return Tuple4.of(request.f0, request.f1, request.f2, count);
        }
    }

    private static final class Remember
            extends RichMapFunction<Tuple4<Long, Long, String, Long>, Tuple4<Long, Long, String, Long>> {
        private transient Latest latest;

        @Override
        public void open(OpenContext context) {
            latest = Latest.create();
        }

        @Override
        public Tuple4<Long, Long, String, Long> map(Tuple4<Long, Long, String, Long> counted) {
            latest.update(counted.f2, counted.f3);
            return counted;
        }
    }
}
