package links

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"allium/protocols/b3"
	"allium/protocols/session"
	"allium/protocols/status"
)

// The operations.
const (
	opOpen  = "open"
	opRenew = "renew"
	opClose = "close"
)

const (
	maxName = 255     // bytes
	maxURL  = 2 << 10 // bytes
	// MaxEvents bounds the events of one answer.
	MaxEvents = 256
	// maxDownloads bounds Offer.Downloads. An Opener may allow fewer.
	maxDownloads = 1 << 20
	// maxTime is the latest end of a link, in seconds since 1970: the end of the year 9999.
	maxTime = 253402300799
)

// Offer describes the object of a link as a peer does. None of it is proved.
type Offer struct {
	Root      b3.Root
	File      bool // Root is a file
	Name      string
	Size      int64     // bytes of the file
	NotAfter  time.Time // the end, in whole seconds; zero: none
	Downloads int       // how many are allowed; 0: any number
}

// Event is a download of a link that began, or that is whole.
type Event struct {
	Whole bool `json:"whole,omitempty"`
	Count int  `json:"count,omitempty"` // the downloads that have begun; 0: they are not counted
}

// openRequest asks for a link.
type openRequest struct {
	session.Envelope
	openFields
}

type openFields struct {
	Root      string `json:"root"`
	File      bool   `json:"file,omitempty"`
	Name      string `json:"name,omitempty"`
	Size      int64  `json:"size,omitempty"`
	NotAfter  int64  `json:"not_after,omitempty"` // seconds since 1970
	Downloads int    `json:"downloads,omitempty"`
}

// offer checks a request. The error is bad_request or bad_address.
func (m openFields) offer() (o Offer, err error) {
	o = Offer{File: m.File, Name: m.Name, Size: m.Size, Downloads: m.Downloads}
	if o.Root, err = b3.Parse(m.Root); err != nil {
		return o, err
	}
	switch {
	case len(m.Name) > maxName || !utf8.ValidString(m.Name):
		return o, status.Errorf(status.BadRequest,
			"the name has %d bytes: must be UTF-8 of at most %d", len(m.Name), maxName)
	case m.Size < 0 || m.Downloads < 0 || m.Downloads > maxDownloads || m.NotAfter < 0 || m.NotAfter > maxTime:
		return o, status.Errorf(status.BadRequest, "size, downloads or not_after is out of its bounds")
	case m.NotAfter > 0:
		o.NotAfter = time.Unix(m.NotAfter, 0).UTC()
	}
	return o, nil
}

// fields returns the request for a link.
func (o Offer) fields() openFields {
	m := openFields{Root: o.Root.String(), File: o.File, Name: o.Name, Size: o.Size, Downloads: o.Downloads}
	if !o.NotAfter.IsZero() {
		m.NotAfter = o.NotAfter.Unix()
	}
	return m
}

// linkRequest renews or ends a link.
type linkRequest struct {
	session.Envelope
	linkFields
}

type linkFields struct {
	ID string `json:"id"`
}

// opened is the answer to open.
type opened struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// urlDigits are the characters of a link. People see it in a terminal, and paste it into a shell.
const urlDigits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/[]%"

// check returns upstream for an answer that names no link.
func (m opened) check() error {
	u, err := url.Parse(m.URL)
	switch {
	case len(m.ID) == 0 || len(m.ID) > maxName || len(m.URL) > maxURL:
		err = fmt.Errorf("an id of %d bytes and a URL of %d", len(m.ID), len(m.URL))
	case strings.ContainsFunc(m.URL, func(r rune) bool { return !strings.ContainsRune(urlDigits, r) }):
		err = errors.New("its URL has other characters than ASCII letters, digits and -._~:/[]%")
	case err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == ""):
		err = fmt.Errorf("%.80q is no link", m.URL)
	}
	if err != nil {
		return status.Errorf(status.Upstream, "the peer's answer is malformed: %w", err)
	}
	return nil
}

// news is the answer to renew and close.
type news struct {
	Events []Event `json:"events,omitempty"`
	Ended  bool    `json:"ended,omitempty"` // nothing more happens to the link
}
