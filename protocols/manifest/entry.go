package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"allium/protocols/b3"
)

// Bounds of one entry, in bytes of UTF-8.
const (
	MaxName   = 255
	MaxTarget = 4096
)

// EntryKind is what an entry is. Its directory says so, never its content: a
// file that happens to hold a manifest is still a file (SPEC §1).
type EntryKind uint8

// The kinds, with their numbers of OAP1.md §11.
const (
	File EntryKind = iota
	Directory
	Link
)

// String is file, directory or link.
func (k EntryKind) String() string {
	switch k {
	case File:
		return "file"
	case Directory:
		return "directory"
	case Link:
		return "link"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Entry is one name in a directory.
type Entry struct {
	Name       string    // see [CheckName]
	Kind       EntryKind // decides which of the members below may be set
	Root       b3.Root   // address of the content; zero for a link
	Size       int64     // bytes of the object that Root names: the file, or the directory's root node (≤ MaxNode); 0 for a link
	Executable bool      // files only
	Target     string    // links only: UTF-8 without NUL, 1 to MaxTarget bytes, wherever it leads
}

// CheckName returns a *EntryError (bad_request) unless name may stand in a
// directory: UTF-8 in NFC, 1 to MaxName bytes, neither "." nor "..", without
// "/" and NUL.
func CheckName(name string) error {
	if reason := nameProblem(name); reason != "" {
		return refuse(name, "%s", reason)
	}
	return nil
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "the name is empty"
	case name == "." || name == "..":
		return "the name is reserved"
	case len(name) > MaxName:
		return fmt.Sprintf("the name has %d bytes, the limit is %d", len(name), MaxName)
	case !utf8.ValidString(name):
		return "the name is not UTF-8"
	case strings.ContainsAny(name, "/\x00"):
		return "the name holds a slash or a NUL"
	case !norm.NFC.IsNormalString(name):
		return "the name is not in Unicode normal form C"
	}
	return ""
}

// targetProblem says why target cannot be a link's, "" when it can. A directory
// may record a target that leads anywhere; what is extracted is decided elsewhere ([LinkProblem]).
func targetProblem(target string) string {
	switch {
	case target == "":
		return "the link has no target"
	case len(target) > MaxTarget:
		return fmt.Sprintf("the link target has %d bytes, the limit is %d", len(target), MaxTarget)
	case !utf8.ValidString(target):
		return "the link target is not UTF-8"
	case strings.IndexByte(target, 0) >= 0:
		return "the link target holds a NUL"
	}
	return ""
}

// check returns a *EntryError unless the entry is one the format can hold.
func (e *Entry) check() error {
	if reason := nameProblem(e.Name); reason != "" {
		return refuse(e.Name, "%s", reason)
	}
	if reason := e.problem(); reason != "" {
		return refuse(e.Name, "%s", reason)
	}
	return nil
}

func (e *Entry) problem() string {
	if e.Kind == Link {
		if e.Executable || e.Size != 0 || !e.Root.IsZero() {
			return "a link has a target and nothing else"
		}
		return targetProblem(e.Target)
	}
	switch {
	case e.Kind > Link:
		return "unknown kind of entry"
	case e.Root.IsZero():
		return "the digest is missing"
	case e.Target != "":
		return "only a link has a target"
	case e.Kind == File && e.Size < 0:
		return "the size is negative"
	case e.Kind == Directory && e.Executable:
		return "only a file is executable"
	case e.Kind == Directory && (e.Size < minNode || e.Size > MaxNode):
		return fmt.Sprintf("no manifest has %d bytes", e.Size)
	}
	return ""
}
