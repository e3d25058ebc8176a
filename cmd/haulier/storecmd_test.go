package main

import (
	"testing"

	"github.com/haulier/haulier/store/services"
)

func TestStoreMigrate(t *testing.T) {
	url := services.StartPostgres(t, "fsync=off").URL()
	do(t, home(t), nil, "token", "list", "--store", url, "--no-migrate", "--data", t.TempDir()).expect(t, exitFailed, "haulier store migrate")
	do(t, home(t), nil, "store", "migrate", url).expect(t, 0, "were of version 0")
	do(t, home(t), nil, "store", "migrate", url).expect(t, 0, "as they should be")
	do(t, home(t), nil, "store", "migrate", "pebble:x").expect(t, exitUsage, "has no tables")
	do(t, home(t), nil, "token", "create", "--name", "ops", "--role", "admin", "--store", url, "--no-migrate", "--data", t.TempDir()).expect(t, 0)
	do(t, home(t), nil, "token", "list", "--store", url, "--data", t.TempDir()).expect(t, 0, "ops")
}
