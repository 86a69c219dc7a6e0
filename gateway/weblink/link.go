package weblink

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/internal/printable"
	"allium/protocols/status"
)

// pathPrefix begins the paths of all links.
const pathPrefix = "/s/"

// link is one link.
type link struct {
	Options
	set    *Set
	secret string
	salt   string

	mu      sync.Mutex // guards what follows; lock: leaf
	over    bool       // close was called
	users   int        // requests for content in progress
	claims  []*claim   // at most Downloads
	happens []Event    // that nobody has taken; at most maxEvents
	changed chan struct{}
}

// Event is something that happened to a link.
type Event struct {
	From  string // the network address of the client
	Whole bool   // it has all of the file or the archive; else its download began
	Count int    // the downloads that have begun; 0: they are not counted
}

// maxEvents bounds the events that wait for a reader. Further ones are left out.
const maxEvents = 256

func newLink(s *Set, o Options, secret string) *link {
	return &link{
		Options: o, set: s, secret: secret, salt: newCookie(),
		changed: make(chan struct{}, 1),
	}
}

// path returns the path of the link.
func (l *link) path() string { return pathPrefix + l.secret + "/" }

// close ends the link.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.wake()
}

// wake tells Serve that something has changed. The caller holds mu.
func (l *link) wake() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// tell queues an event. The caller holds mu.
func (l *link) tell(e Event) {
	if len(l.happens) < maxEvents {
		l.happens = append(l.happens, e)
	}
	l.wake()
}

// take returns the events since the last call. ended means that no further one comes: the link was closed, or nobody
// uses it, and it has expired or its last download is whole.
func (l *link) take(now time.Time) (all []Event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, l.happens = l.happens, nil
	return all, l.over || l.users == 0 && (l.expired(now) || l.spent())
}

func (l *link) expired(now time.Time) bool { return !l.NotAfter.IsZero() && !now.Before(l.NotAfter) }

// spent reports whether all downloads have been used and are whole. The caller holds mu.
func (l *link) spent() bool {
	if l.Downloads == 0 || len(l.claims) < l.Downloads {
		return false
	}
	for _, c := range l.claims {
		if !c.whole {
			return false
		}
	}
	return true
}

// The ends of a link, as visitors read them.
func errExpired() error {
	return status.Errorf(status.Gone, "This link has expired. Ask whoever sent it for another one.")
}

func errUsedUp() error {
	return status.Errorf(status.Gone,
		"This link has been used up: it allowed a number of downloads. Ask whoever sent it for another one.")
}

func errOver() error {
	return status.Errorf(status.Gone, "This link no longer works: its owner has ended it. "+
		"Ask whoever sent it for another one.")
}

// serve answers a request for what an escaped path below the link names.
func (l *link) serve(w *exchange.Response, r *http.Request, path string) error {
	v := newVisit(l, w, r)
	if err := v.enter(); err != nil {
		return err
	}
	if v.setCookie {
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: v.cookie, Path: w.Prefix + l.path(), HttpOnly: true, Secure: w.From.Secure,
			SameSite: http.SameSiteLaxMode,
		})
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	switch format := r.URL.Query().Get("format"); format {
	case "", "html":
	case "tar", "zip":
		if v.archive = r.Method == http.MethodGet && !l.File; v.archive {
			if err := v.begin(); err != nil {
				return err
			}
		}
	default: // it may tell addresses, or be content that does not count
		return status.Errorf(status.BadRequest, "this link has no format %s. Open it without format",
			exchange.Clip(format))
	}
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Accept") // the query alone chooses the form
	err := l.set.mounts.Serve(w, &plain, &content.Mount{
		Path: strings.TrimSuffix(l.path(), "/"), Root: l.Root, File: l.File, Name: l.Name, Note: l.note(),
		Plain: l.Downloads > 0, Salt: l.salt, Begin: v.begin,
	}, path)
	v.finish(w, err)
	return conceal(err)
}

// spoken are the outcomes whose errors speak of the request alone, unless they tell an address.
var spoken = []status.Outcome{
	status.BadRequest, status.NotAllowed, status.Method, status.BadRange, status.Precondition, status.Gone, status.Busy,
	status.RateLimit, status.Canceled,
}

// conceal returns an error whose message tells a visitor neither the address of an object, which would let it fetch the
// object without the link, nor the peers that have it. The log gets the full text.
func conceal(err error) error {
	o := status.Of(err)
	if err == nil || slices.Contains(spoken, o) && !strings.Contains(err.Error(), "b3:") {
		return err
	}
	words := "What this link shows cannot be fetched at the moment. Try again later, or ask whoever sent it"
	switch o {
	case status.NotFound:
		words = "There is no such file behind this link, or nobody who has it can be reached. " +
			"Open the link itself to see what it shows"
	case status.Denied:
		words = "The operator of this gateway does not let it show this"
	}
	r := status.ReportOf(err)
	r.Message = words
	return fmt.Errorf("%v: %w", err, r.Err(o.Code())) //nolint:errorlint // what err unwraps to speaks to others
}

// note tells visitors how long the link works.
func (l *link) note() string {
	var parts []string
	if !l.NotAfter.IsZero() {
		parts = append(parts, "until "+l.NotAfter.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	if l.Downloads > 0 {
		l.mu.Lock()
		left := l.Downloads - len(l.claims)
		l.mu.Unlock()
		parts = append(parts, "for "+printable.Count(left, "more download"))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("This link works %s.", strings.Join(parts, " and "))
}
