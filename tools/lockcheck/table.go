package main

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const tableHead = `# Locks

Every mutex of the program, what it guards, and its place in the order of locks. ` + "`make docs`" + `
writes this page from the sources, and ` + "`make docs-check`" + ` compares the two.

The order is config → metadata → breaker → leaf. While a lock is held, only locks of later places
are taken, and those that it names. Nothing is locked under a leaf: counters are leaves. ` + "`make lint`" + `
proves it along every path through the sources, and that no I/O, wait or call-back happens under a
lock, but for the exceptions on this page ([ADR 33](../adr/0033-lock-order.md)).

A lock whose comment does not say what it guards does so for the fields below it, up to the next
empty line; the table lists these.

`

// writeTable returns the page of all locks and exceptions.
func writeTable(all []*found) []byte {
	var locks []*lock
	var ignores []*ignore
	for _, f := range all {
		locks = append(locks, f.locks...)
		ignores = append(ignores, f.ignored...)
	}
	slices.SortFunc(locks, func(a, b *lock) int {
		return cmp.Or(cmp.Compare(slices.Index(places, a.Place), slices.Index(places, b.Place)),
			cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(ignores, func(a, b *ignore) int {
		return cmp.Or(cmp.Compare(a.in, b.in), cmp.Compare(a.pos, b.pos))
	})
	b := bytes.NewBufferString(tableHead)
	for _, p := range places {
		n := 0
		for _, k := range locks {
			if k.Place != p {
				continue
			}
			if n++; n == 1 {
				fmt.Fprintf(b, "## %s\n\n| lock | guards | before | held across |\n|---|---|---|---|\n", p)
			}
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", k.Name, k.what(), code(k.Before), k.exceptions())
		}
		if n > 0 {
			b.WriteString("\n")
		}
	}
	b.WriteString("## Exceptions of lines\n\n" +
		"`ignore` excepts a line under the lock that is held there. `computes` says that what is called\n" +
		"only computes, whatever is held: it locks leaves at most.\n\n| in | | because |\n|---|---|---|\n")
	for _, i := range ignores {
		word := "ignore"
		if i.computes {
			word = "computes"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", i.in, word, cell(i.reason))
	}
	return b.Bytes()
}

// below matches comments that name the fields by where they stand.
var below = regexp.MustCompile(`what follows|the rest|all below`)

// what says what the lock guards.
func (k *lock) what() string {
	switch guards := cell(strings.TrimPrefix(k.guards, "guards ")); {
	case guards == "":
		return code(k.fields)
	case k.fields != nil && below.MatchString(guards):
		return guards + ": " + code(k.fields)
	default:
		return guards
	}
}

// exceptions says across what the lock is held, and why.
func (k *lock) exceptions() string {
	var words []string
	reason := ""
	for _, of := range []kind{doesIO, waits, callsBack} {
		if k.reasons[of] != "" {
			words = append(words, kindWords[of])
			reason = k.reasons[of]
		}
	}
	if words == nil {
		return ""
	}
	return strings.Join(words, ", ") + ": " + cell(reason)
}

func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
