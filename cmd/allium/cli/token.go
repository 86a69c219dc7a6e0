package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"allium/cmd/allium/failure"
	"allium/protocols/status"
)

// tokenEnv is the environment variable that may hold a capability.
const tokenEnv = "ALLIUM_TOKEN"

// maxTokenText is the most bytes that are read where a capability is expected. It
// is twice the size of the largest, so that a longer one is refused for its length.
const maxTokenText = 12 << 10

// Token returns the capability that a command sends to a node: the content of file ("-" is standard input), or of
// $ALLIUM_TOKEN if file is empty, or "" if there is neither. A file that other users may read is refused, because
// anyone can use a capability that they can read.
func Token(a *App, file string) (string, error) {
	switch file {
	case "":
		return cleanToken(os.Getenv(tokenEnv), "$"+tokenEnv)
	case "-":
		text, err := io.ReadAll(io.LimitReader(a.Stdin, maxTokenText))
		if err != nil {
			return "", failure.In("standard input", err)
		}
		return NeededToken(string(text), "standard input")
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", status.Errorf(status.BadRequest, "there is no file %s; give --token-file the name of one", file)
	}
	if err != nil {
		return "", failure.In("--token-file", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", failure.In("--token-file", err)
	}
	// A pipe (<(…), /dev/fd/3) is as private as the program that writes it.
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return "", status.Errorf(status.Forbidden,
			"other users can read %s (mode %04o), and so use the capability in it; run chmod 600 on it",
			file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenText))
	if err != nil {
		return "", failure.In("--token-file", err)
	}
	return NeededToken(string(text), file)
}

// NeededToken is cleanToken, and refuses an empty text.
func NeededToken(text, where string) (string, error) {
	token, err := cleanToken(text, where)
	if err == nil && token == "" {
		err = status.Errorf(status.BadRequest, "there is no capability in %s; `allium token mint` makes one", where)
	}
	return token, err
}

// cleanToken returns text without the space around it. Its errors never repeat
// text, which may be a capability with a typing error.
func cleanToken(text, where string) (string, error) {
	token := strings.TrimSpace(text)
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) || len(token) > maxTokenText/2 {
		return "", status.Errorf(status.BadRequest,
			"%s does not hold one capability; a capability is a single word of letters, digits, - and _", where)
	}
	return token, nil
}
