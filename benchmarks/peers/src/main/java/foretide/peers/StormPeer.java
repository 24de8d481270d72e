package foretide.peers;

import foretide.peers.Workload.Latest;
import foretide.peers.Workload.Options;
import foretide.peers.Workload.Request;
import foretide.peers.Workload.Slow;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.IRichSpout;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** URL count on Apache Storm, in one process: requests -> shuffle -> extract -> fields -> count. */
public final class StormPeer {
    private static final Fields LINE = new Fields("row", "due", "line");
    private static final int MAX_PENDING = 5000;
    private static final int BATCH = 100;

    private StormPeer() {}

    public static void main(String[] args) {
        Workload.run(args, StormPeer::run);
    }

    private static void run(Options options) throws Exception {
        TopologyBuilder topology = new TopologyBuilder();
        topology.setSpout("requests", requests(options), Workload.READERS);
        topology.setBolt("extract", new Extract(options.slow()), options.number("tasks")).shuffleGrouping("requests");
        topology.setBolt("count", new Count(options.isThroughput()), Workload.COUNTERS)
                .fieldsGrouping("extract", new Fields("url"));
        if (!options.isThroughput()) {
            topology.setBolt("out", sink(options), Workload.COUNTERS).shuffleGrouping("count");
        }
        LocalCluster cluster = new LocalCluster();
        cluster.submitTopology("url-count", settings(options), topology.createTopology());
        if (options.isThroughput()) {
            Workload.follow(options.number("rows"));
        } else {
            Workload.serve();
        }
    }

    private static Config settings(Options options) {
        Config settings = new Config();
        settings.setNumWorkers(1);
        settings.setNumAckers(options.isSet("acks") ? 1 : 0);
        if (options.isThroughput()) {
            settings.setMaxSpoutPending(MAX_PENDING);
            settings.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, BATCH);
        }
        return settings;
    }

    private static IRichSpout requests(Options options) {
        if (options.isThroughput()) {
            return new Requests(options.number("rows"), options.isSet("acks"));
        }
        return new KafkaSpout<>(KafkaSpoutConfig.builder(options.text("servers"), options.text("in"))
                .setProp("group.id", "url-count")
                .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
                .setRecordTranslator(record -> {
                    Request request = Request.parse(record.value());
                    return new Values(request.row(), request.due(), request.text());
                }, LINE)
                .build());
    }

    private static KafkaBolt<String, String> sink(Options options) {
        return new KafkaBolt<String, String>()
                .withProducerProperties(Workload.producer(options))
                .withTopicSelector(options.text("out"))
                .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("url", "result"));
    }

    private static final class Requests extends BaseRichSpout {
        private final long rows;
        private final boolean acks;
        private SpoutOutputCollector collector;
        private long next;
        private int step;

        Requests(long rows, boolean acks) {
            this.rows = rows;
            this.acks = acks;
        }

        @Override
        public void open(Map<String, Object> settings, TopologyContext context, SpoutOutputCollector out) {
            collector = out;
            next = context.getThisTaskIndex();
            step = context.getComponentTasks(context.getThisComponentId()).size();
        }

        @Override
        public void nextTuple() {
            if (next < rows) {
                Values tuple = new Values(next, 0L, Workload.line(next));
                if (acks) {
                    collector.emit(tuple, next);
                } else {
                    collector.emit(tuple);
                }
                next += step;
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(LINE);
        }
    }

    private static final class Extract extends BaseBasicBolt {
        private final Slow slow;
        private int task;

        Extract(Slow slow) {
            this.slow = slow;
        }

        @Override
        public void prepare(Map<String, Object> settings, TopologyContext context) {
            task = context.getThisTaskIndex();
        }

        @Override
        public void execute(Tuple request, BasicOutputCollector collector) {
            slow.work(task, request.getLong(0));
            collector.emit(new Values(request.getLong(0), request.getLong(1), Workload.url(request.getString(2))));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("row", "due", "url"));
        }
    }

    private static final class Count extends BaseBasicBolt {
        private final boolean remembers;
        private transient Map<String, Long> counts;
        private transient Latest latest;

        Count(boolean remembers) {
            this.remembers = remembers;
        }

        @Override
        public void prepare(Map<String, Object> settings, TopologyContext context) {
            counts = new HashMap<>();
            latest = Latest.create();
        }

        @Override
        public void execute(Tuple request, BasicOutputCollector collector) {
            String url = request.getString(2);
            long count = counts.merge(url, 1L, Long::sum);
            if (remembers) {
                latest.update(url, count);
            } else {
                String result = Workload.result(request.getLong(0), request.getLong(1), url, count);
                collector.emit(new Values(url, result));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("url", "result"));
        }
    }
}
