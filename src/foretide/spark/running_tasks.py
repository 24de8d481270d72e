"""The running tasks of a query, and copies of those that are stuck on an executor.

Spark has no interface for either: its own speculation looks at tasks only, and never starts a copy on the host of the
first attempt. So a few lines of Java are compiled in the driver by the compiler that Spark brings along (Janino). They
run under the lock of Spark's task scheduler. All of it is internal to Spark: `of` tries whether it works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from foretide.metrics.running_tasks import TaskAttempt

if TYPE_CHECKING:
    from pyspark import SparkContext

_MILLISECONDS = 1000.0
_NOT_KNOWN, _FROM_SOURCE = -1, -2
_EXACT_SINKS = ("FileSink[", "MemorySink", "org.apache.spark.sql.execution.datasources.noop.")
_NO_GROUP = "foretide probe"

_MANAGERS = """
  /* All task sets, with tasks to start or not: Spark's own sorted queue has those with tasks to start only. */
  private static List managers(Pool pool, List found) {
    for (Iterator each = pool.schedulableQueue().iterator(); each.hasNext();) {
      Object next = each.next();
      if (next instanceof TaskSetManager) found.add(next); else managers((Pool) next, found);
    }
    return found;
  }
}
"""
"""The end of each of the classes below."""

_READ = """
import java.util.*;
import org.apache.spark.*;
import org.apache.spark.scheduler.*;

public class ForetideRunningTasks {
  public static String read(Object scheduler, String group) {
    TaskSchedulerImpl s = (TaskSchedulerImpl) scheduler;
    List found = new ArrayList();
    Map infos = new HashMap();
    synchronized (s) {
      for (Iterator queue = managers(s.rootPool(), new ArrayList()).iterator(); queue.hasNext();) {
        TaskSetManager m = (TaskSetManager) queue.next();
        Properties properties = m.taskSet().properties();
        if (m.isZombie() || properties == null || !group.equals(properties.getProperty("spark.jobGroup.id"))) continue;
        List attempts = new ArrayList();
        scala.collection.Iterator each = m.taskInfos().valuesIterator();
        while (each.hasNext()) {
          TaskInfo i = (TaskInfo) each.next();
          if (i.running() || i.successful()) attempts.add(i);
        }
        found.add(m);
        infos.put(m, attempts);
      }
    }
    StringBuilder out = new StringBuilder();
    long now = System.currentTimeMillis();
    for (Iterator i = found.iterator(); i.hasNext();) {
      TaskSetManager m = (TaskSetManager) i.next();
      describe(s, m, (List) infos.get(m), now, out);
    }
    return out.toString();
  }

  private static void describe(TaskSchedulerImpl s, TaskSetManager m, List attempts, long now, StringBuilder out) {
    Map read = counted(s, m);
    scala.collection.immutable.List parents = parents(s, m);
    for (Iterator i = attempts.iterator(); i.hasNext();) {
      TaskInfo info = (TaskInfo) i.next();
      long[] known = (long[]) read.get(Long.valueOf(info.taskId()));
      long rows = known == null ? 0L : known[0];
      long waited = known == null ? 0L : known[1];
      long ran = (info.finished() ? info.finishTime() : now) - info.launchTime();
      out.append(m.stageId()).append(' ').append(info.index()).append(' ').append(info.executorId()).append(' ');
      out.append(info.finished() ? 1 : 0).append(' ').append(now - info.launchTime()).append(' ');
      out.append(Math.max(0L, ran - waited)).append(' ').append(rows).append(' ');
      out.append(size(s, m, parents, info.index())).append(';');
    }
  }

  /* Rows read, and milliseconds spent on waiting for blocks, by attempt: as of the last heartbeat. */
  private static Map counted(TaskSchedulerImpl s, TaskSetManager m) {
    Map found = new HashMap();
    scala.collection.Iterator tasks = s.sc().statusStore()
        .taskList(m.stageId(), m.taskSet().stageAttemptId(), Integer.MAX_VALUE).iterator();
    while (tasks.hasNext()) {
      org.apache.spark.status.api.v1.TaskData task = (org.apache.spark.status.api.v1.TaskData) tasks.next();
      if (task.taskMetrics().isEmpty()) continue;
      org.apache.spark.status.api.v1.TaskMetrics metrics =
          (org.apache.spark.status.api.v1.TaskMetrics) task.taskMetrics().get();
      long rows = metrics.inputMetrics().recordsRead() + metrics.shuffleReadMetrics().recordsRead();
      found.put(Long.valueOf(task.taskId()), new long[] {rows, metrics.shuffleReadMetrics().fetchWaitTime()});
    }
    return found;
  }

  private static scala.collection.immutable.List parents(TaskSchedulerImpl s, TaskSetManager m) {
    try {
      scala.Option stage = s.dagScheduler().stageIdToStage().get(Integer.valueOf(m.stageId()));
      return stage.isEmpty() ? null : ((Stage) stage.get()).parents();
    } catch (RuntimeException changed) { // another thread adds and removes stages
      return null;
    }
  }

  /* Bytes that a task reads from shuffles; -1 where it cannot be told, -2 in a stage that reads none. */
  private static long size(
      TaskSchedulerImpl s, TaskSetManager m, scala.collection.immutable.List parents, int index) {
    if (parents == null) return -1L;
    if (parents.isEmpty()) return -2L;
    long bytes = 0L;
    scala.collection.Iterator each = parents.iterator();
    while (each.hasNext()) {
      Object parent = each.next();
      if (!(parent instanceof ShuffleMapStage)) return -1L;
      ShuffleDependency shuffle = ((ShuffleMapStage) parent).shuffleDep();
      scala.Option status = s.mapOutputTracker().shuffleStatuses().get(Integer.valueOf(shuffle.shuffleId()));
      if (status.isEmpty() || shuffle.partitioner().numPartitions() != m.tasks().length) return -1L;
      MapStatus[] outputs = ((ShuffleStatus) status.get()).mapStatuses();
      for (int i = 0; i < outputs.length; i++)
        if (outputs[i] != null) bytes += outputs[i].getSizeForBlock(m.tasks()[index].partitionId());
    }
    return bytes;
  }
"""

_COPY = """
import java.util.*;
import org.apache.spark.scheduler.*;

public class ForetideTaskCopies {
  private static final String MARK = "-slow";

  /* Starts a copy of every attempt on an executor that is the only one of its task. Returns their number. */
  public static int copy(Object scheduler, String group, String executor, boolean results, boolean sameHost)
      throws Exception {
    TaskSchedulerImpl s = (TaskSchedulerImpl) scheduler;
    int copies = 0;
    synchronized (s) {
      for (Iterator queue = managers(s.rootPool(), new ArrayList()).iterator(); queue.hasNext();) {
        TaskSetManager m = (TaskSetManager) queue.next();
        Properties properties = m.taskSet().properties();
        if (m.isZombie() || properties == null || !group.equals(properties.getProperty("spark.jobGroup.id"))) continue;
        scala.collection.Iterator running = m.runningTasksSet().iterator();
        while (running.hasNext()) {
          TaskInfo info = (TaskInfo) m.taskInfos().apply(running.next());
          int x = info.index();
          Integer task = Integer.valueOf(x);
          if (!info.executorId().equals(executor) || m.successful()[x]) continue;
          if (m.copiesRunning()[x] != 1) { rename(info, false); continue; }
          if (m.speculatableTasks().contains(task) || m.taskAttempts()[x].size() > 2) continue;
          if (!results && m.tasks()[x] instanceof ResultTask) continue;
          rename(info, sameHost);
          m.addPendingTask(x, false, true);
          m.speculatableTasks().add(task);
          copies++;
        }
      }
    }
    if (copies > 0) s.backend().reviveOffers();
    return copies;
  }

  /* Spark starts no copy on a host that has an attempt: on a cluster of one host the attempt gets another one's name
     until its copy runs. */
  private static void rename(TaskInfo info, boolean mark) throws Exception {
    String host = info.host().endsWith(MARK)
        ? info.host().substring(0, info.host().length() - MARK.length()) : info.host();
    String wanted = mark ? host + MARK : host;
    if (wanted.equals(info.host())) return;
    java.lang.reflect.Field field = TaskInfo.class.getDeclaredField("host");
    field.setAccessible(true);
    field.set(info, wanted);
  }

  /* Puts an executor on the exclusion list, or takes it off if there is no entry. */
  public static void exclude(Object scheduler, Object excluded, String executor, Object entry) {
    synchronized (scheduler) {
      scala.collection.mutable.HashMap map = (scala.collection.mutable.HashMap) excluded;
      if (entry == null) map.remove(executor); else map.put(executor, entry);
    }
  }
"""


class TasksUnavailableError(Exception):
    """This Spark does not let anybody look at running tasks, or copy them; says why."""


class _Compiled:
    """Static methods of a Java class that was compiled in the driver."""

    def __init__(self, context: SparkContext, name: str, source: str) -> None:
        jvm: Any = context._jvm  # noqa: SLF001 - the way to the driver's classes
        self._gateway: Any = context._gateway  # noqa: SLF001
        driver: Any = context._jsc  # noqa: SLF001
        self.scheduler = driver.sc().taskScheduler()
        self._object = jvm.java.lang.Object
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self.scheduler.getClass().getClassLoader())
        compiler.cook(source + _MANAGERS)
        methods = compiler.getClassLoader().loadClass(name).getMethods()
        self._methods = {method.getName(): method for method in methods}

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; arguments are Java objects, texts and numbers."""
        given = self._gateway.new_array(self._object, len(arguments))
        for place, argument in enumerate(arguments):
            given[place] = argument
        return self._methods[method].invoke(None, given)


class RunningTasks:
    """Reads the tasks of stages under way. Made by `of`, which tries whether that works."""

    def __init__(self, java: _Compiled, heartbeat: float) -> None:
        self._java, self.heartbeat = java, heartbeat

    @classmethod
    def of_active(cls) -> RunningTasks:
        """Of the context that is running; raises `TasksUnavailableError` like `of`."""
        from pyspark import SparkContext  # noqa: PLC0415 - there is one by now

        return cls.of(SparkContext.getOrCreate())

    @classmethod
    def of(cls, context: SparkContext) -> RunningTasks:
        """Raises `TasksUnavailableError` if running tasks cannot be read."""
        try:
            interval = context.getConf().get("spark.executor.heartbeatInterval", "10s")
            jvm: Any = context._jvm  # noqa: SLF001
            seconds = jvm.org.apache.spark.network.util.JavaUtils.timeStringAsMs(interval) / _MILLISECONDS
            tasks = cls(_Compiled(context, "ForetideRunningTasks", _READ), seconds)
            tasks.attempts(_NO_GROUP, even=False)
        except (Py4JError, TypeError) as error:
            raise TasksUnavailableError(f"running tasks cannot be read: {_cause(error)}") from error
        return tasks

    def attempts(self, run_id: str, *, even: bool) -> tuple[TaskAttempt, ...]:
        """The running and the successful attempts of the stages under way of one run of a query.

        Args:
            run_id: Of the StreamingQuery.
            even: Whether tasks that read from a source can be expected to read the same number of rows each.
        """
        text = self._java.call("read", self._java.scheduler, run_id)
        return tuple(_attempt(line.split(), even=even) for line in text.split(";") if line)


def _attempt(fields: list[str], *, even: bool) -> TaskAttempt:
    worker = fields.pop(2)
    stage, task, finished, age, ran, rows, size = map(int, fields)
    known: dict[int, float | None] = {_NOT_KNOWN: None, _FROM_SOURCE: 1.0 if even else None}
    seconds = ran / _MILLISECONDS
    return TaskAttempt(
        stage, task, worker, bool(finished), age / _MILLISECONDS, seconds, rows, known.get(size, float(size))
    )


class TaskCopies:
    """Copies running tasks, and changes the exclusion list under the scheduler's lock. Made by `of`."""

    def __init__(self, java: _Compiled) -> None:
        self._java = java

    @classmethod
    def of(cls, context: SparkContext) -> TaskCopies:
        """Raises `TasksUnavailableError` if running tasks cannot be copied."""
        try:
            copies = cls(_Compiled(context, "ForetideTaskCopies", _COPY))
            copies.copy(_NO_GROUP, "", results=False, same_host=True)
        except (Py4JError, TypeError) as error:
            raise TasksUnavailableError(f"running tasks cannot be copied: {_cause(error)}") from error
        return copies

    def copy(self, run_id: str, executor: str, *, results: bool, same_host: bool) -> int:
        """Start a copy of each task of a query that runs on an executor and nowhere else; returns how many.

        Whichever attempt ends first counts, and Spark ends the other one. A task is copied twice at most.

        Args:
            run_id: Of the StreamingQuery.
            executor: On which they are stuck; it should be on the exclusion list.
            results: Whether tasks that write to the sink are copied as well.
            same_host: Whether the copies have to run on the host of the executor: there is no other.
        """
        return int(self._java.call("copy", self._java.scheduler, run_id, executor, results, same_host))

    def exclude(self, excluded: Any, executor: str, entry: Any) -> None:
        """Put an executor on Spark's list of excluded ones with an entry; None takes it off."""
        self._java.call("exclude", self._java.scheduler, excluded, executor, entry)


def is_busy(query: Any) -> bool:
    """Whether a batch of a StreamingQuery is under way."""
    return bool(query.status.get("isTriggerActive"))


def sink_of(query: Any) -> str:
    """Spark's description of the sink of a StreamingQuery; empty before its first batch has ended."""
    progress = query.lastProgress
    return "" if progress is None else str(progress.sink.description)


def may_copy_results(sink: str) -> bool:
    """Whether a sink, by Spark's description, ignores what attempts that do not count have written.

    >>> may_copy_results("FileSink[/data/out]"), may_copy_results("ForeachBatchSink")
    (True, False)
    """
    return sink.startswith(_EXACT_SINKS)


def _cause(error: Exception) -> str:
    """What went wrong, without the lines of Java that led there."""
    lines = [line.strip(": ") for line in str(error).splitlines() if line.strip() and not line.startswith("\t")]
    return lines[min(1, len(lines) - 1)][:300] if lines else type(error).__name__
