import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.common.utils.Utils;

/**
 * Prints what Kafka's Java client makes of resources: the murmur2 hash of the bytes of "namespace/name" in UTF-8, and the
 * partition of a record with that key, for several numbers of partitions. The resources are the same in every run.
 */
public final class Buckets {
    private static final int[] COUNTS = {1, 2, 3, 7, 10, 64, 256};
    private static final int MAX_PART = 253;
    private static final String LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";

    private static final SplittableRandom RANDOM = new SplittableRandom(20260101);

    private record Resource(String namespace, String name) {
        String key() {
            return namespace + "/" + name;
        }
    }

    private Buckets() {}

    public static void main(String[] args) {
        StringBuilder out = new StringBuilder();
        out.append("# Made by tests/kafka/vectors/make with the Java client of Apache Kafka ").append(AppInfoParser.getVersion())
            .append(": Utils.murmur2 (signed) over the UTF-8 bytes of namespace/name,")
            .append(" and BuiltInPartitioner.partitionForKey for each number of buckets\n");
        out.append("namespace\tname\tbytes\tmurmur2");
        for (int count : COUNTS) {
            out.append("\tof_").append(count);
        }
        out.append('\n');
        for (Resource resource : resources()) {
            append(out, resource);
        }
        byte[] bytes = out.toString().getBytes(StandardCharsets.UTF_8);
        System.out.write(bytes, 0, bytes.length);
        System.out.flush();
    }

    private static void append(StringBuilder out, Resource resource) {
        byte[] key = resource.key().getBytes(StandardCharsets.UTF_8);
        out.append(resource.namespace()).append('\t').append(resource.name())
            .append('\t').append(key.length).append('\t').append(Utils.murmur2(key));
        for (int count : COUNTS) {
            out.append('\t').append(BuiltInPartitioner.partitionForKey(key, count));
        }
        out.append('\n');
    }

    private static Set<Resource> resources() {
        Set<Resource> all = new LinkedHashSet<>();
        all.addAll(usual());
        // Every length of the key, several times, so that each remainder of the hash's four-byte steps comes with many values.
        for (int length = 3; length <= 40; length++) {
            for (int i = 0; i < 3; i++) {
                int namespace = 1 + RANDOM.nextInt(length - 2);
                all.add(new Resource(label(namespace), label(length - 1 - namespace)));
            }
        }
        all.addAll(longest());
        all.addAll(unicode());
        for (int i = 0; i < 20; i++) {
            all.add(new Resource(label(1 + RANDOM.nextInt(63)), label(1 + RANDOM.nextInt(MAX_PART))));
        }
        return all;
    }

    private static List<Resource> usual() {
        List<Resource> some = new ArrayList<>();
        for (int i = 1; i <= 10; i++) {
            some.add(new Resource("default", "trigger" + i));
        }
        some.add(new Resource("default", "my-source"));
        some.add(new Resource("knative-eventing", "kafka-source"));
        some.add(new Resource("kube-system", "a.b.c"));
        // The same letters, cut elsewhere.
        some.add(new Resource("ab", "c"));
        some.add(new Resource("a", "bc"));
        some.add(new Resource("a", "a"));
        some.add(new Resource("0", "0"));
        return some;
    }

    private static List<Resource> longest() {
        List<Resource> some = new ArrayList<>();
        for (int length = MAX_PART - 3; length <= MAX_PART; length++) {
            some.add(new Resource(label(length), label(length)));
            some.add(new Resource("a", label(length)));
            some.add(new Resource(label(length), "a"));
        }
        some.add(new Resource("z".repeat(MAX_PART), "z".repeat(MAX_PART)));
        // 253 bytes in 85 characters and in 64.
        some.add(new Resource("a", "€".repeat(84) + "a"));
        some.add(new Resource("\uD83D\uDE80".repeat(63) + "a", "a"));
        return some;
    }

    // Bytes from 0x80 up: a hash over signed bytes that forgets to mask them differs here.
    private static List<Resource> unicode() {
        List<Resource> some = new ArrayList<>();
        String[] words = {
            "é", "ü", "ß", "ñ", "čšž", "привет", "мир", "γειά", "שלום", "مرحبا", "नमस्ते", "你好", "世界", "日本語",
            "한국어", "€", "\uD83D\uDE80", "\uD83D\uDE00\uD83D\uDE00", "e\u0301", "\u00ff", "\uff5e", "\uD840\uDC00",
        };
        for (int i = 0; i < words.length; i++) {
            some.add(new Resource("default", words[i]));
            some.add(new Resource(words[i], words[(i + 1) % words.length]));
        }
        return some;
    }

    private static String label(int length) {
        StringBuilder label = new StringBuilder(length);
        for (int i = 0; i < length; i++) {
            // A hyphen now and then, never at an end.
            boolean inside = i > 0 && i < length - 1;
            label.append(inside && RANDOM.nextInt(9) == 0 ? '-' : LETTERS.charAt(RANDOM.nextInt(LETTERS.length())));
        }
        return label.toString();
    }
}
