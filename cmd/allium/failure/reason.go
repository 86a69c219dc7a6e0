package failure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"allium/internal/lazyregexp"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// reason says why something failed and what to do about it.
type reason struct {
	why, do string
	finding bool // why is a whole sentence about what was found, and nothing failed
}

// explain finds the reason of err in its chain: the first error that this
// package knows by its type.
func explain(err error) reason {
	for e := err; e != nil; {
		switch e := e.(type) { //nolint:errorlint // walks the chain itself
		case *Usage:
			return reason{why: e.Why, do: e.Do}
		case *finding:
			r := explain(e.err)
			r.finding = true
			return r
		case *subject:
			r := explain(e.err)
			if name := printable.Name(e.name); !strings.Contains(r.why, name) {
				r.why = name + ": " + r.why
			}
			return r
		case *status.Error:
			if cause := e.Unwrap(); cause == nil || cause.Error() != e.Message {
				return ofStatus(e)
			}
		case *b3.AddressError:
			return ofAddress(e)
		case *fs.PathError:
			return ofSystem(e.Path, e)
		case *os.LinkError:
			return ofSystem(e.New, e)
		case interface{ Status() status.Outcome }:
			return split(err.Error())
		}
		e = errors.Unwrap(e)
	}
	if err.Error() == context.DeadlineExceeded.Error() {
		return reason{why: "it took too long"}
	}
	return split(err.Error())
}

// ofStatus is the reason of an error with an outcome.
func ofStatus(e *status.Error) reason {
	r := split(e.Message)
	if cause := e.Unwrap(); cause != nil && strings.HasSuffix(r.do, ": "+cause.Error()) {
		r.do = strings.TrimSuffix(r.do, ": "+cause.Error()) // the chain has it
		all := chain(cause)
		r.why += " (" + all[len(all)-1].Error() + ")"
	}
	return r
}

// split takes a message apart at its semicolons. By the rule of [status.Error] the
// first part says why, and the others what to do. The lines after the first are a list, unless
// the advice comes after them.
func split(message string) reason {
	head, list, isList := strings.Cut(message, "\n")
	if isList && strings.Contains(list, "; ") && !strings.Contains(head, "; ") && !strings.HasSuffix(head, ":") {
		head, isList = strings.Join(strings.Fields(message), " "), false
	}
	sentences := sentencesOf(head)
	why := sentences[0]
	if isList {
		why += "\n" + list
	}
	return reason{why: why, do: strings.Join(sentences[1:], ". ")}
}

// sentencesOf cuts text at its semicolons, except those in quotes. Each part after
// the first begins with a capital letter.
func sentencesOf(text string) []string {
	var all []string
	from, quoted := 0, false
	for i := range len(text) {
		switch {
		case text[i] == '"' || text[i] == '`':
			quoted = !quoted
		case !quoted && strings.HasPrefix(text[i:], "; "):
			all, from = append(all, text[from:i]), i+2
		}
	}
	all = append(all, text[from:])
	for i := range all[1:] {
		all[i+1] = upper(all[i+1])
	}
	return all
}

// ofAddress is the reason of a text that is no address.
func ofAddress(e *b3.AddressError) reason {
	return reason{why: e.Error(), do: adviceFor(status.BadAddress, Task{})}
}

// ofSystem is the reason of an operating system's error about a file.
func ofSystem(file string, err error) reason {
	file = printable.Name(file)
	if e := status.FromFile(file, err); e != nil {
		return split(e.Message)
	}
	return reason{why: fmt.Sprintf("%s: %v", file, err)}
}

// adviceFor says what to do about an outcome whose error does not say it itself.
func adviceFor(o status.Outcome, task Task) string {
	switch o {
	case status.BadRequest, status.BadRange, status.Unsupported:
		if task.Help != "" {
			return "see `" + task.Help + "`"
		}
	case status.BadAddress:
		return "an address is b3: and 64 lowercase hex digits"
	case status.Forbidden:
		return "ask the owner for a capability, or for permission"
	case status.Denied:
		return "the node's operator can take it off the denylist"
	case status.NotFound:
		return "check the name"
	case status.BodyCap:
		return "send it in smaller parts"
	case status.Busy, status.RateLimit, status.BreakerOpen, status.NotReady:
		return "try again in a moment"
	case status.Quota:
		return "remove pins of that label, or ask for a larger quota"
	case status.Draining:
		return "start the node again with `allium run`"
	case status.Timeout, status.HopExceeded, status.TransportDown:
		return "check the network, and try again"
	case status.Corrupt, status.BadDigest:
		return "fetch it again, from another source if that does not help"
	case status.Upstream:
		return "try another node or gateway"
	case status.NoBootstrap:
		return "check that a seed is configured (dht.bootstrap) and can be reached"
	case status.NoSpace:
		return "make space with `allium gc run --all`, or raise store.max_bytes"
	case status.Internal:
		return "this is a bug in allium: run it with --log-level debug and report what it prints"
	}
	return ""
}

var address = lazyregexp.New(`b3:[0-9a-f]{64}`)

// Short returns text with each whole address shortened, as in b3:3ce6…1f0a.
func Short(text string) string {
	return address().ReplaceAllStringFunc(text, func(a string) string { return a[:7] + "…" + a[len(a)-4:] })
}
