"""Delta's own view of a table's log, through the gateway to the JVM.

This is the only module that calls Delta's classes. What they decide is taken as it is: which version is the newest,
which files are live, what a checkpoint holds. Tables are named as Spark names them, see `hadoop_url`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.clientserver import ClientServer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from pyspark.sql.classic.column import Column as ClassicColumn

from delta_sidecar.log.actions import ADD_SCHEMA, DELETION_VECTOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, SparkSession

ACTIONS = ADD_SCHEMA
"""The fields of live files: those of an `add` that a replay reads."""

# Versions of Delta whose inner classes `append` uses.
_APPENDING = "4.4."


def checkpoint(spark: SparkSession, url: str, version: int | None = None) -> None:
    """Lets Delta write a checkpoint of a version, as it is configured to; of the newest for None."""
    snapshot = open_snapshot(spark, url, version)
    try:
        with _replaying(spark, snapshot.state):
            snapshot.log.checkpoint(snapshot.state, _none(spark))
    finally:
        snapshot.release()


def may_append(spark: SparkSession) -> bool:
    """True if `DeltaSnapshot.append` can be used: it needs the classes of this Delta, and one thread of Java's a call.

    A transaction is that of a thread, and PySpark keeps to one only where its threads are pinned, as by default.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    is_pinned = isinstance(spark.sparkContext._gateway, ClientServer)  # noqa: SLF001 - as above
    return is_pinned and str(jvm.io.delta.package.VERSION()).startswith(_APPENDING)


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """Delta's snapshot of a version."""

    spark: SparkSession
    log: Any  # Delta's object for the table's log
    state: Any  # Delta's object for the snapshot

    @property
    def version(self) -> int:
        """The version that it is of."""
        return int(self.state.version())

    def checksum_files(self) -> int | None:
        """The number of live files by the version's checksum file; None where there is none."""
        checksum = self.state.checksumOpt()
        return int(checksum.get().numFiles()) if checksum.isDefined() else None

    def num_files(self) -> int:
        """The number of live files. Delta replays the log for it, on the executors, and keeps what it found."""
        return int(self.state.numOfFiles())

    def last_transaction(self, app_id: str) -> int | None:
        """The version of the last transaction that an application has committed; None where it has committed none.

        Delta replays the log for it, and does not do so again when it writes at this version: a checksum file has it
        too, but Delta does not look there.
        """
        with _replaying(self.spark, self.state):
            found = self.state.transactions().get(app_id)
        return int(found.get()) if found.isDefined() else None

    def append(self, rows: DataFrame, app_id: str, options: Mapping[str, str]) -> None:
        """Appends rows by Delta's own writer, in a transaction on this version and without a replay of the log.

        It is for a caller that knows the application's last transaction at this version: the writer does not look
        whether that of the `options` (`txnAppId`, `txnVersion`) was made before. Where the application has committed
        another one since this version, Delta raises ConcurrentTransactionException, as if it had looked.
        """
        jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - there is no public way
        delta, scala = jvm.org.apache.spark.sql.delta, jvm.PythonUtils
        none, some = jvm.scala.Option.empty(), jvm.scala.Some
        # Scala's companion object, which keeps the transaction of each thread.
        active = getattr(getattr(delta, "OptimisticTransaction$"), "MODULE$")
        mode, nothing, no = jvm.org.apache.spark.sql.SaveMode.Append, scala.toSeq([]), False
        with _active(rows.sparkSession, {}) as session:
            spark = session._jsparkSession  # noqa: SLF001 - as above
            settings = delta.DeltaOptions(scala.toScalaMap(dict(options)), spark.sessionState().conf())
            adds_columns = some(True) if settings.canMergeSchema() else none  # noqa: FBT003 - of Java
            write = (mode, some(nothing), none, settings.userMetadata(), none, none, adds_columns, none, none)
            operation = delta.DeltaOperations.Write(*write)
            frame = rows._jdf  # noqa: SLF001 - as above
            writer = delta.commands.WriteIntoDelta(
                self.log, mode, settings, nothing, scala.toScalaMap({}), frame, none, none, no
            )
            transaction = self.log.startTransaction(none, some(self.state))
            # Delta looks for it in the commits that came in between.
            transaction.readTxn().append(app_id)
            active.setActive(transaction)
            try:
                written = writer.writeAndReturnCommitData(transaction, spark, none, no)
                transaction.commitIfNeeded(written.actions(), operation, written.stringTags())
            finally:
                active.clearActive()
        # As Spark does after a write: what is kept of the table is out of date.
        rows.sparkSession.catalog.refreshByPath(self.log.dataPath().toString())

    def files(self) -> DataFrame:
        """The live files, with the fields of `ACTIONS` and the paths that the log has."""
        files = DataFrame(self.state.allFiles().toDF(), self.spark)
        files = files.withColumn("deletionVector", _nullable(F.col("deletionVector"))).select(*ACTIONS.names)
        actions = DataFrame(self.state.loadActions(), self.spark)
        actions = actions.where("add.path is not null").select("add.path", "add.deletionVector", "version")
        if not actions.where(_is_respelled(F.col("path"))).limit(1).count():
            return files
        is_same = (F.col("path") == F.col("canonical")) & (F.col("#vector") == F.col("vector"))
        keyed = files.withColumn("#vector", vector_id(F.col("deletionVector")))
        joined = keyed.join(self._respelled(actions), is_same, "left")
        return joined.withColumn("path", F.coalesce("raw", "path")).select(*ACTIONS.names)

    def release(self) -> None:
        """Lets go of what Delta keeps of a version, unless it is the newest one that it knows."""
        if not self.state.equals(self.log.unsafeVolatileSnapshot()):
            self.state.uncache()

    def _respelled(self, actions: DataFrame) -> DataFrame:
        """Paths that Delta spells in its own way: what it makes of them, and what they are in the newest action."""
        path, is_respelled = F.col("path"), _is_respelled(F.col("path"))
        spelled = actions.select(
            F.when(is_respelled, self._canonical(path)).otherwise(path).alias("canonical"),
            vector_id(F.col("deletionVector")).alias("vector"),
            is_respelled.alias("is_respelled"),
            "path",
            "version",
        )
        # A file may have been added under one spelling, and later under another.
        names = ["canonical", "vector"]
        known = spelled.where("is_respelled").select(*names).distinct()
        return spelled.join(known, names, "left_semi").groupBy(*names).agg(F.max_by("path", "version").alias("raw"))

    def _canonical(self, path: Column) -> Column:
        jvm: Any = self.spark._jvm  # noqa: SLF001
        function = self.log.getCanonicalPathUdf(True)  # noqa: FBT003 - it runs on executors
        argument: Any = path
        return ClassicColumn(function.apply(jvm.PythonUtils.toSeq([argument._jc])))  # noqa: SLF001


def open_snapshot(
    spark: SparkSession, url: str, version: int | None = None, *, options: Mapping[str, str] | None = None
) -> DeltaSnapshot:
    """Opens Delta's snapshot of a version, or of the newest one.

    With other `options` (Hadoop's, for this snapshot alone) it shares nothing that Delta has read before.
    """
    log, none = _log(spark, url, options), _none(spark)
    newest = log.update(False, none, none)  # noqa: FBT003 - an argument of Delta's
    if version is None or newest.version() == version:
        return DeltaSnapshot(spark, log, newest)
    return DeltaSnapshot(spark, log, log.getSnapshotAt(version, none, none, False))  # noqa: FBT003 - any age will do


@contextmanager
def replayed(spark: SparkSession, url: str, version: int, properties: Mapping[str, str]) -> Iterator[DeltaSnapshot]:
    """Opens Delta's snapshot of a version for a replay of its log, however large that is.

    Its statistics have times in UTC in any time zone of the session: where a checkpoint has them as a struct only (by
    the table's `properties`), Delta makes texts of them in the zone of the session.
    """
    is_utc = spark.conf.get(_ZONE) in _UTC or not has_structs_only(properties)
    with _active(spark, {} if is_utc else {_ZONE: "UTC"}) as zoned:
        # With an option of its own it shares nothing that was read in another zone.
        options = {} if is_utc else {"fs.deltaSidecar.zone": "UTC"}
        snapshot = open_snapshot(zoned, url, version, options=options)
        with _replaying(zoned, snapshot.state) as session:
            yield replace(snapshot, spark=session)


def has_structs_only(properties: Mapping[str, str]) -> bool:
    """True if a table's checkpoints have statistics as structs only, by its properties."""
    return properties.get("delta.checkpoint.writeStatsAsJson", "true").lower() == "false"


_ZONE = "spark.sql.session.timeZone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00")
_TASKS = "spark.databricks.delta.snapshotPartitions"
# Of a log, for one task: checkpoints have 100 to 200 bytes a file, and Delta holds a task's files in memory.
_BYTES_PER_TASK = 8 << 20
_FEWEST_TASKS = 4


@contextmanager
def _replaying(spark: SparkSession, state: Any) -> Iterator[SparkSession]:  # noqa: ANN401 - of the JVM
    """Has Delta replay a log in as many tasks as its size asks for: by itself it takes 50 for each."""
    log_bytes = int(state.checkpointSizeInBytes()) + int(state.deltaFileSizeInBytes())
    chosen = spark.conf.get(_TASKS, None)
    tasks = max(int(chosen or _FEWEST_TASKS), -(-log_bytes // _BYTES_PER_TASK))
    with _active(spark, {} if chosen == str(tasks) else {_TASKS: str(tasks)}) as session:
        yield session


@contextmanager
def _active(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Makes a session the one that Delta finds in this thread; with settings, a clone of it that has them."""
    sessions, session = _sessions(spark), spark
    if settings:
        session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
        for name, value in settings.items():
            session.conf.set(name, value)
    before = sessions.getActiveSession().get()
    sessions.setActiveSession(session._jsparkSession)  # noqa: SLF001
    try:
        yield session
    finally:
        sessions.setActiveSession(before)


def _sessions(spark: SparkSession) -> Any:  # noqa: ANN401 - of the JVM
    """The JVM's register of sessions. A thread that Spark has not seen yet has none, and Delta needs one."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    if not sessions.getActiveSession().isDefined():
        sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    return sessions


def vector_id(descriptor: Column) -> Column:
    """The id of a deletion vector, as in `delta_sidecar.log.deletion_vectors`; the empty text without one."""
    place = F.coalesce(F.concat(F.lit("@"), descriptor["offset"].cast("string")), F.lit(""))
    return F.coalesce(F.concat(descriptor["storageType"], descriptor["pathOrInlineDv"], place), F.lit(""))


def _log(spark: SparkSession, url: str, options: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - of the JVM
    _sessions(spark)
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way
    logs = jvm.org.apache.spark.sql.delta.DeltaLog
    if not options:
        return logs.forTable(spark._jsparkSession, url)  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(url)
    return logs.forTable(spark._jsparkSession, path, jvm.PythonUtils.toScalaMap(dict(options)))  # noqa: SLF001


def _none(spark: SparkSession) -> Any:  # noqa: ANN401 - an object of the JVM
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.scala.Option.empty()


def _nullable(descriptor: Column) -> Column:
    """A deletion vector whose fields may all be null: in Arrow they are, where a file has none."""
    fields = (descriptor[field.name].alias(field.name) for field in DELETION_VECTOR)
    return F.when(descriptor.isNotNull(), F.struct(*fields))


def _is_respelled(path: Column) -> Column:
    """True where Delta may spell a path in another way than the log: it qualifies and normalizes them."""
    return path.rlike(r"^/|//|\./|(^|/)\.\.?\z")
