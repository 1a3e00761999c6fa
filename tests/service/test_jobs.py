"""The list of jobs: taken once, handed back, given up, never lost."""

import sqlite3
import time
from pathlib import Path

import pytest

from bcdm.service.asked import AskedJob
from bcdm.service.jobs import Conclusion, FullError, Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(tmp_path / "jobs.sqlite")


def add(jobs: Jobs, *names: str, most: int = 9) -> None:
    for name in names:
        jobs.add(name, "clinic", AskedJob(seed=7), most)


def test_jobs_are_taken_in_order_and_once(jobs: Jobs) -> None:
    add(jobs, "a", "b")
    first, second = jobs.take("one", 60), jobs.take("two", 60)
    assert first is not None
    assert second is not None
    assert [first.id, second.id, jobs.take("three", 60)] == ["a", "b", None]
    assert (first.asked.seed, first.state, first.attempts) == (7, "running", 1)
    assert jobs.count()["running"] == 2


def test_a_full_list_refuses(jobs: Jobs) -> None:
    add(jobs, "a", "b", most=2)
    jobs.take("one", 60)
    with pytest.raises(FullError):
        add(jobs, "c", most=2)
    assert jobs.find("c") is None
    assert jobs.conclude("a", "one", Conclusion("done", "green", "fine"))
    add(jobs, "c", most=2)


def test_only_its_worker_concludes_a_job(jobs: Jobs) -> None:
    add(jobs, "a")
    jobs.take("one", 60)
    assert not jobs.conclude("a", "two", Conclusion("done"))
    assert jobs.hand_back("a", "one", 5) == "waiting"
    assert not jobs.conclude("a", "one", Conclusion("done")), "it has it no more"
    jobs.take("two", 60)
    assert jobs.hand_back("a", "one", 5) == "running", "it is another's"
    assert jobs.conclude("a", "two", Conclusion("refused", "red", "why"))
    found = jobs.find("a")
    assert found is not None
    assert (found.state, found.light, found.summary, found.attempts) == ("refused", "red", "why", 2)


def test_leases_run_out_unless_they_are_renewed(jobs: Jobs) -> None:
    add(jobs, "a", "b")
    jobs.take("one", -1)
    jobs.take("two", -1)
    jobs.renew("b", "two", 60, 0.5)
    jobs.renew("a", "two", 60, 0.5)
    assert jobs.list_lapsed() == [("a", "one")]
    found = jobs.find("b")
    assert found is not None
    assert found.progress == 0.5
    jobs.renew("b", "two", 60, 0.25)
    assert jobs.find("b") == found, "progress never goes back"


def test_a_job_that_kills_its_workers_is_given_up(jobs: Jobs) -> None:
    add(jobs, "a")
    for attempt in range(3):
        jobs.take("one", 60)
        state = jobs.hand_back("a", "one", 3, "it kills")
        assert state == ("waiting" if attempt < 2 else "failed")
    found = jobs.find("a")
    assert found is not None
    assert found.summary == "it kills"


def test_a_job_that_gets_further_is_not_given_up(jobs: Jobs) -> None:
    add(jobs, "a")
    for attempt in range(9):
        jobs.take("one", 60)
        jobs.renew("a", "one", 60, 0.1 * (attempt + 1))
        assert jobs.hand_back("a", "one", 2) == "waiting"
    for state in ("waiting", "failed"):
        jobs.take("one", 60)
        jobs.renew("a", "one", 60, 0.9)
        assert jobs.hand_back("a", "one", 3) == state, "it came as far before"


def test_after_a_kill_of_everything_all_wait_again(jobs: Jobs, tmp_path: Path) -> None:
    add(jobs, "a", "b", "c")
    for worker in ("one", "two"):
        jobs.take(worker, 60)
    jobs.cancel("b")
    jobs.close()
    again = Jobs(tmp_path / "jobs.sqlite")
    assert again.hand_back_all(5) == 2
    assert {name: again.find(name).state for name in "abc"} == {
        "a": "waiting",
        "b": "cancelled",
        "c": "waiting",
    }
    assert again.find("a").attempts == 0, "nobody is to blame"
    assert again.take("one", 60).id == "a"


def test_a_job_that_ends_everything_is_given_up(jobs: Jobs) -> None:
    add(jobs, "a", "b")
    for _ in range(4):  # b gets further every time
        jobs.take("one", 60)
        jobs.take("two", 60)
        found = jobs.find("b")
        assert found is not None
        jobs.renew("b", "two", 60, found.progress + 0.1)
        jobs.hand_back_all(3)
    states = [jobs.find(name).state for name in "ab"]
    assert states == ["failed", "waiting"]
    assert "every time that it had begun it" in jobs.find("a").summary


def test_a_commit_that_fails_is_no_lasting_harm(jobs: Jobs) -> None:
    """As on a full disk: what was to be written is not, and the next change is."""
    real = jobs._base

    class Failing:
        in_transaction = True

        def execute(self, text: str, *values: object) -> object:
            if text == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return real.execute(text, *values)

    jobs._base = Failing()  # type: ignore[assignment]
    with pytest.raises(sqlite3.OperationalError):
        add(jobs, "a")
    jobs._base = real
    add(jobs, "b")
    assert jobs.list_names() == {"b"}


def test_cancelled_ones_are_told_and_old_ones_found(jobs: Jobs) -> None:
    add(jobs, "a", "b")
    jobs.take("one", 60)
    for name in ("a", "b"):
        jobs.cancel(name)
    assert jobs.list_to_cancel() == ["a"]
    assert jobs.find("b").state == "cancelled"
    jobs.remove("a")
    assert jobs.find("a") is not None, "it runs"
    assert jobs.hand_back("a", "one", 5) == "cancelled"
    assert [one.id for one in jobs.list_old(time.time() + 1)] == ["a", "b"]
    assert jobs.list_old(time.time() - 60) == []
    jobs.remove("a")
    assert jobs.list_names() == {"b"}
    assert [one.id for one in jobs.list_recent("clinic", 5)] == ["b"]
    assert jobs.list_recent("other", 5) == []
