"""Several networks trained alike and methods compared alike: tasks, contenders, tables."""
