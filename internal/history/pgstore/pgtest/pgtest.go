// Package pgtest gives tests an empty PostgreSQL database each.
//
// Place: layer 3, for tests only. Promise: a new database on the server that FERMI_TEST_POSTGRES
// names, dropped when the test ends; without that variable the test is skipped and says why.
// Enemies: tests that see each other's rows, databases left behind.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Variable names the server: a URL of a superuser without a password.
const Variable = "FERMI_TEST_POSTGRES"

// New makes a database and gives its URL.
func New(t testing.TB) string {
	t.Helper()
	server := os.Getenv(Variable)
	if server == "" {
		t.Skip(Variable + " is not set; make e2e-postgres runs this")
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(Variable, "is not a URL")
	}
	name := "fermi_test_" + strings.ToLower(rand.Text()[:12])
	Exec(t, server, `CREATE DATABASE `+name+` ENCODING 'UTF8' TEMPLATE template0`)
	t.Cleanup(func() { Exec(t, server, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u.Path = "/" + name
	return u.String()
}

// Exec runs statements on a connection of their own.
func Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx := context.Background() // also while the test's own has ended
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, st := range statements {
		if _, err := conn.Exec(ctx, st); err != nil {
			t.Fatal(err)
		}
	}
}
