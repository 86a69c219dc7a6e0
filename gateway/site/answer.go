package site

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The files that have a meaning in a directory of a site.
const (
	IndexPage    = "index.html"
	notFoundPage = "404.html"
	pageSuffix   = ".html"
)

// The bounds of one answer.
const (
	maxRewrites = 16 // rules that lead from path to path before a file is there
	maxDepth    = 64 // directories in which a 404.html is looked for
)

// Err returns the error of an answer that is Missing, for the path that was asked for.
func (a Answer) Err(path []string) error {
	outcome := status.NotFound
	switch a.Code {
	case http.StatusGone:
		outcome = status.Gone
	case http.StatusUnavailableForLegalReasons:
		outcome = status.Denied
	}
	return status.Errorf(outcome, "cannot find %.80q: the site has no such page. Open its first page",
		"/"+strings.Join(path, "/"))
}

// Files are the entries of a site.
type Files interface {
	// Entry returns the entry at a path of unescaped segments below the site's root. found is false if the tree proves
	// that there is none. The empty path is the root.
	Entry(ctx context.Context, path []string) (e manifest.Entry, found bool, err error)
}

// Answer says how a request to a site is answered: with Entry, unless the Action redirects or Missing is set. A
// directory answers with a listing, or with a redirect to its URL with a slash if the request has none.
type Answer struct {
	Action
	Missing bool     // there is no page; Code is 404, 410 or 451
	Path    []string // of Entry
	Entry   manifest.Entry
}

// Answer returns how the site answers a request for a path of unescaped segments. slash means that the path ends with a
// slash. An existing file comes first, then the rules of _redirects, then the nearest 404.html. The error is that of
// files, or hop_exceeded for rules that lead on and on.
func (r *Rules) Answer(ctx context.Context, files Files, path []string, slash bool) (Answer, error) {
	asked, found, err := r.there(ctx, files, path, slash)
	if err != nil || found && !lists(asked, slash) {
		return asked, err
	}
	m := r.Redirects.Begin()
	for range maxRewrites {
		action, ok := m.Next(path)
		if !ok {
			return r.none(ctx, files, path, asked, found)
		}
		if action.Redirects() {
			if leadsTo(action.To, path) {
				continue
			}
			return Answer{Action: action}, nil
		}
		to, fine := segments(action.To)
		if !fine {
			continue
		}
		a, there, err := r.there(ctx, files, to, false)
		if there && a.Entry.Kind == manifest.Directory {
			a, there, err = r.there(ctx, files, to, true)
		}
		switch {
		case err != nil:
			return a, err
		case there && a.Entry.Kind == manifest.File && !a.Redirects():
			a.Code = action.Code
			return a, nil
		case action.Code != http.StatusOK:
			return Answer{Action: action, Missing: true}, nil
		}
		path = to
	}
	return Answer{}, status.Errorf(status.HopExceeded,
		"cannot serve this page: more than %d rules of %s lead on from it. The site's author must mend them",
		maxRewrites, RedirectsFile)
}

// lists reports whether an answer is the listing of a directory.
func lists(a Answer, slash bool) bool {
	return slash && a.Entry.Kind == manifest.Directory && !a.Redirects()
}

// there returns the entry that is at a path without rules.
func (r *Rules) there(ctx context.Context, files Files, path []string, slash bool) (a Answer, found bool, err error) {
	a.Code, a.Path = http.StatusOK, path
	if a.Entry, found, err = files.Entry(ctx, path); err != nil {
		return a, false, err
	}
	if found && a.Entry.Kind == manifest.File && slash && len(path) > 0 {
		found = false // no file has a slash at its end
	}
	if r.CleanURLs && len(path) > 0 && (!found || a.Entry.Kind == manifest.Directory && !slash) {
		page := slices.Concat(path[:len(path)-1], []string{path[len(path)-1] + pageSuffix})
		e, there, err := files.Entry(ctx, page)
		if err != nil || there && e.Kind == manifest.File {
			return Answer{Action: Action{Code: http.StatusOK}, Path: page, Entry: e}, there, err
		}
	}
	if found && slash && a.Entry.Kind == manifest.Directory {
		index := slices.Concat(path, []string{IndexPage})
		e, there, err := files.Entry(ctx, index)
		if err != nil || there && e.Kind == manifest.File {
			return Answer{Action: Action{Code: http.StatusOK}, Path: index, Entry: e}, there, err
		}
	}
	return a, found, nil
}

// none returns the answer of a path for which there is neither a page nor a rule. asked is the listing of its directory
// if there is one.
func (r *Rules) none(
	ctx context.Context, files Files, path []string, asked Answer, listing bool,
) (Answer, error) {
	if listing {
		return asked, nil
	}
	a := Answer{Action: Action{Code: http.StatusNotFound}, Missing: true}
	for depth := range min(len(path), maxDepth) + 1 {
		here := path[:depth]
		if depth > 0 {
			e, found, err := files.Entry(ctx, here)
			if err != nil {
				return a, err
			}
			if !found || e.Kind != manifest.Directory {
				return a, nil
			}
		}
		page := slices.Concat(here, []string{notFoundPage})
		e, found, err := files.Entry(ctx, page)
		if err != nil {
			return a, err
		}
		if found && e.Kind == manifest.File {
			a.Missing, a.Path, a.Entry = false, page, e
		}
	}
	return a, nil
}

// segments returns the unescaped segments of a target's path. ok is false for one that no file can have.
func segments(target string) (path []string, ok bool) {
	escaped, _, _ := strings.Cut(target, "#")
	escaped, _, _ = strings.Cut(escaped, "?")
	for part := range strings.SplitSeq(escaped, "/") {
		name, err := url.PathUnescape(part)
		switch {
		case err != nil:
			return nil, false
		case name == "":
		case manifest.NameProblem(name) != "":
			return nil, false
		default:
			path = append(path, name)
		}
	}
	return path, true
}

// leadsTo reports whether a target is the path from which it leads.
func leadsTo(target string, path []string) bool {
	to, ok := segments(target)
	return strings.HasPrefix(target, "/") && ok && slices.Equal(to, path)
}

// Location returns where a redirect sends a client whose request has that query, which may be empty. A target that has
// a query keeps its own.
func (a Action) Location(query string) string {
	to, fragment, found := strings.Cut(a.To, "#")
	if query != "" && !strings.Contains(to, "?") {
		to += "?" + query
	}
	if found {
		to += "#" + fragment
	}
	return to
}
