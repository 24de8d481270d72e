package foretide.peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What all peers share: the rows, the URL of a row, the slow task, and what they print. */
final class Workload {
    static final int READERS = 2;
    static final int COUNTERS = 2;

    private static final Pattern URL = Pattern.compile("https?://\\S+");
    private static final String PAGE = "http://en.wikipedia.org/wiki/Page_";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long STALLED_NANOS = 60_000_000_000L;
    private static final int SAMPLE_MILLIS = 100;

    private Workload() {}

    /** What a peer does. */
    interface Program {
        void run(Options options) throws Exception;
    }

    /** Run a peer, and end this process at once, whatever threads the engine has left. */
    static void run(String[] args, Program program) {
        int code = 0;
        try {
            program.run(Options.of(args));
        } catch (Exception | LinkageError error) {
            error.printStackTrace();
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    /** A request: its number, when it was due, and its line or, later on, its URL. */
    record Request(long row, long due, String text) {
        static Request parse(String json) {
            try {
                JsonNode found = JSON.readTree(json);
                return new Request(found.get("row").asLong(), found.get("due").asLong(), found.get("line").asText());
            } catch (IOException error) {
                throw new IllegalArgumentException("not a request: " + json, error);
            }
        }
    }

    /** The options of a peer, each given as name=value. */
    record Options(Map<String, String> values) {
        static Options of(String[] args) {
            Map<String, String> values = new HashMap<>();
            for (String each : args) {
                String[] parts = each.split("=", 2);
                values.put(parts[0], parts[1]);
            }
            return new Options(values);
        }

        String text(String name) {
            return values.get(name);
        }

        long number(String name) {
            return Long.parseLong(values.get(name));
        }

        boolean isSet(String name) {
            return Boolean.parseBoolean(values.get(name));
        }

        /** Whether rows are made and counted as fast as possible; otherwise they go from topic to topic. */
        boolean isThroughput() {
            return values.get("mode").equals("throughput");
        }

        Slow slow() {
            return new Slow(number("slow_from"), number("slow_ms"));
        }
    }

    /** From a row on, task 0 needs more time for each of its rows. */
    record Slow(long fromRow, long millis) implements Serializable {
        void work(int task, long row) {
            if (task == 0 && row >= fromRow) {
                try {
                    Thread.sleep(millis);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    /** The line of a row; `page` in benchmarks/peers/rows.py is the same. */
    static String line(long row) {
        long hash = row * 2_654_435_761L % 4_294_967_296L;
        long page = hash % 1000 * (hash / 1000 % 1000) / 1000;
        return row + " 1190146243." + row % 1000 + " " + PAGE + page + " -";
    }

    static String url(String line) {
        Matcher found = URL.matcher(line);
        return found.find() ? found.group() : "malformed";
    }

    static String result(long row, long due, String url, long requests) {
        return "{\"url\":\"" + url + "\",\"requests\":" + requests + ",\"row\":" + row + ",\"due\":" + due + "}";
    }

    /** The latest count of each URL in one task: the output where rows are counted as fast as possible. */
    static final class Latest {
        private static final List<Latest> ALL = new ArrayList<>();
        private final Map<String, Long> counts = new HashMap<>();
        private volatile long rows;

        static synchronized Latest create() {
            Latest made = new Latest();
            ALL.add(made);
            return made;
        }

        void update(String url, long count) {
            counts.put(url, count);
            rows++; // one thread writes
        }

        static synchronized long rows() {
            return ALL.stream().mapToLong(each -> each.rows).sum();
        }

        /** The sum over all rows of the number of their page, from 1 on. */
        static synchronized long checksum() {
            return ALL.stream().flatMap(each -> each.counts.entrySet().stream())
                    .mapToLong(each -> (1 + Long.parseLong(each.getKey().substring(PAGE.length()))) * each.getValue())
                    .sum();
        }
    }

    /** Wait until all rows are counted, and print how many there were from time to time. */
    static void follow(long rows) throws InterruptedException {
        List<String> samples = new ArrayList<>();
        long begin = System.nanoTime();
        long last = begin;
        long counted = 0;
        while (counted < rows) {
            Thread.sleep(SAMPLE_MILLIS);
            long now = System.nanoTime();
            long found = Latest.rows();
            if (found > counted) {
                samples.add("[" + (now - begin) / 1e9 + "," + found + "]");
                last = now;
            } else if (now - last > STALLED_NANOS) {
                throw new IllegalStateException("only " + counted + " of " + rows + " rows were counted");
            }
            counted = found;
        }
        System.out.println("peer {\"checksum\":" + Latest.checksum() + ",\"samples\":[" + String.join(",", samples) + "]}");
    }

    /** Say that rows are taken, and wait until the owner of this process wants its end. */
    static void serve() throws IOException {
        System.out.println("peer {\"ready\":true}");
        while (System.in.read() >= 0) {
            continue;
        }
    }

    /** Settings of a producer that sends each record at once, to all that keep copies. */
    static Properties producer(Options options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.text("servers"));
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("linger.ms", options.isThroughput() ? "20" : "0");
        properties.put("acks", "all");
        return properties;
    }
}
