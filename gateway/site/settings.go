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

// Site is the website at a host. It is immutable.
type Site struct {
	Key    Key      // zero if Domain is set
	Domain string   // the DNS says what this domain stands for
	Path   []string // of the site's root below Key
	Moves  bool     // Key is a choice of the operator or of the DNS, and so not of the host
	Settings
}
