package site

import "encoding/json"

// SettingsFile is the name of the file in the root of a site that says how it is served.
const SettingsFile = "site.json"

// Settings say how a site is served.
type Settings struct {
	CleanURLs bool `json:"clean_urls"` // /about finds about.html
}

// ParseSettings parses a file site.json. Sites have files of that name for other purposes, so what it does not know is
// passed over, and a file that is no JSON object says nothing.
func ParseSettings(text []byte) (s Settings) {
	if len(text) > MaxFile || json.Unmarshal(text, &s) != nil {
		return Settings{}
	}
	return s
}

// Rules hold the rules of a site, as its files say them.
type Rules struct {
	Redirects *Redirects
	Headers   *Headers
	Settings
	File bool // the site is one file and no directory
}

// RuleFiles are the names of the files that hold the rules of a site, in the order in which they are read.
var RuleFiles = [...]string{RedirectsFile, HeadersFile, SettingsFile}

// Read adds what one of RuleFiles says. text is the beginning of it, one byte more than MaxFile at most. The error says
// for the author of the site what is wrong, and where.
func (r *Rules) Read(file string, text []byte) (err error) {
	switch file {
	case RedirectsFile:
		r.Redirects, err = ParseRedirects(text)
	case HeadersFile:
		r.Headers, err = ParseHeaders(text)
	case SettingsFile:
		r.Settings = ParseSettings(text)
	}
	return err
}

// Site is the website at a host. It is immutable.
type Site struct {
	Key    Key      // zero if Domain is set
	Domain string   // the DNS says what this domain stands for
	Path   []string // of the site's root below Key
	Moves  bool     // Key is a choice of the operator or of the DNS, and so not of the host
	Settings
}
