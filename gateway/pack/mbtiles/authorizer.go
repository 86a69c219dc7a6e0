package mbtiles

import (
	"strings"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// harmless lists the functions that a pack may call: those that views of known tools use. None of them makes a value
// larger than its arguments, or takes longer than it takes to read them.
var harmless = map[string]bool{
	"abs": true, "coalesce": true, "count": true, "ifnull": true, "iif": true, "length": true, "lower": true,
	"max": true, "min": true, "nullif": true, "octet_length": true, "round": true, "substr": true,
	"substring": true, "sum": true, "total": true, "typeof": true, "upper": true,
}

// schemaTables may be read to learn what the pack holds.
var schemaTables = map[string]bool{"sqlite_schema": true, "sqlite_master": true}

// authorizer decides what a query may do when SQLite compiles it.
type authorizer struct {
	tables map[string]bool // that may be read, in lower case
	pragma string          // that may be run; empty: none
	left   int             // readings that the query being compiled may still have
	denied string          // what it was refused; empty: nothing
}

// begin starts a query.
func (a *authorizer) begin() { a.left, a.denied = maxReadings, "" }

// authorize decides about one action of the query that is compiled. Its arguments are those of
// sqlite3_set_authorizer: first is the table that is read, and second the function that is called.
func (a *authorizer) authorize(_ *libc.TLS, _ uintptr, action int32, first, second, _, _ uintptr) int32 {
	if a.left--; a.left < 0 {
		return a.deny("so many columns")
	}
	switch action {
	case sqlite3.SQLITE_SELECT:
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_READ:
		if table := libc.GoString(first); !a.tables[strings.ToLower(table)] {
			return a.deny("table " + table)
		}
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_FUNCTION:
		if function := libc.GoString(second); !harmless[strings.ToLower(function)] {
			return a.deny("function " + function)
		}
		return sqlite3.SQLITE_OK
	case sqlite3.SQLITE_RECURSIVE:
		return a.deny("a recursive query")
	case sqlite3.SQLITE_PRAGMA:
		if a.pragma != "" && libc.GoString(first) == a.pragma {
			return sqlite3.SQLITE_OK
		}
	}
	return a.deny(sqlite.OpType(action).String())
}

func (a *authorizer) deny(what string) int32 {
	if a.denied == "" {
		a.denied = what
	}
	return sqlite3.SQLITE_DENY
}
