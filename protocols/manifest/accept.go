package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The bounds of a tree that can be extracted to a disk.
const (
	MaxPath      = maxPath    // longest path of an entry from the root of the tree, in bytes
	MaxNesting   = maxNesting // most directories inside each other, including the root
	MaxLinkBytes = 64 << 20   // most bytes of the paths and targets of all links
)

// Normal returns the name or link target s in Unicode normal form C, which
// [NameProblem] requires. It returns a string that is not UTF-8 unchanged.
func Normal(s string) string {
	if !utf8.ValidString(s) {
		return s
	}
	return norm.NFC.String(s)
}

// PathProblem returns why an entry at path is too deep to be extracted, or "". path
// is slash-separated and relative to the root of the tree.
func PathProblem(path string, kind EntryKind) string {
	switch {
	case len(path) > maxPath:
		return fmt.Sprintf("the path has %d bytes, the limit is %d", len(path), maxPath)
	case kind == Directory && strings.Count(path, "/")+2 > maxNesting:
		return fmt.Sprintf("it has more than %d directories inside each other", maxNesting)
	}
	return ""
}

// LinkProblem returns why a link at path with the given target cannot be extracted,
// or "". path is as in [PathProblem].
func LinkProblem(path, target string) string {
	if reason := targetProblem(target); reason != "" {
		return reason
	}
	switch {
	case strings.HasPrefix(target, "/"):
		return fmt.Sprintf("the link target %q is absolute", clip(target))
	case LeadsOut(path, target):
		return fmt.Sprintf("the link target %q leads or may lead out of the tree", clip(target))
	}
	return ""
}

// LeadsOut reports whether a link at path could lead out of its tree. path is as in
// [PathProblem].
//
// The link is in a real directory, so each ".." at the start of the target climbs
// one directory. A ".." after a name may climb elsewhere, because the name can be
// a link to a higher place; LeadsOut reports true for it. Any other target that
// does not climb above the root stays inside, if the links it passes do too.
func LeadsOut(path, target string) bool {
	depth := strings.Count(path, "/") // directories between the link and the root
	if strings.HasPrefix(target, "/") {
		return true
	}
	named := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; named || depth < 0 {
				return true
			}
		default:
			named = true
		}
	}
	return false
}
