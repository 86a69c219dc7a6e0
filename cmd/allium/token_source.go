package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"allium/protocols/status"
)

// tokenEnv is the environment's variable with a capability.
const tokenEnv = "ALLIUM_TOKEN"

// maxTokenText is the most that is read where a capability should be: twice
// what the largest has, so that a longer one is refused for its length.
const maxTokenText = 12 << 10

// token is the capability that a command shows a node: what the file holds
// ("-" is standard input), where no file is named $ALLIUM_TOKEN, and "" where
// there is neither. A file that others may read is refused: whoever reads a
// capability has it.
func (a *app) token(file string) (string, error) {
	switch file {
	case "":
		return cleanToken(os.Getenv(tokenEnv), "$"+tokenEnv)
	case "-":
		text, err := io.ReadAll(io.LimitReader(a.stdin, maxTokenText))
		if err != nil {
			return "", fmt.Errorf("standard input: %w", err)
		}
		return neededToken(string(text), "standard input")
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", status.Errorf(status.BadRequest, "--token-file: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	// A pipe (<(…), /dev/fd/3) is as private as what writes it.
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return "", status.Errorf(status.Forbidden, "%s can be read by others (mode %04o), and so the capability in it used; chmod 600 it", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenText))
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return neededToken(string(text), file)
}

// tokenFileUsed refuses --token-file where nobody is shown what is in it: what
// was meant to go to another node would go, without it, to one's own.
func (a *app) tokenFileUsed(cmd *cobra.Command) error {
	if a.tokenFile == "" || a.api != "" {
		return nil
	}
	if throughGateway(cmd) {
		return nil
	}
	return status.Errorf(status.BadRequest, "--token-file goes with --api, or with --gateway where a command has it; name one: the socket of one's own node takes no capability")
}

// neededToken is cleanToken of what must not be empty.
func neededToken(text, where string) (string, error) {
	token, err := cleanToken(text, where)
	if err == nil && token == "" {
		err = status.Errorf(status.BadRequest, "there is no capability in %s; `allium token mint` makes one", where)
	}
	return token, err
}

// cleanToken is text without the space around it. It never repeats what it
// refuses: that may be a capability, but for a slip.
func cleanToken(text, where string) (string, error) {
	token := strings.TrimSpace(text)
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) || len(token) > maxTokenText/2 {
		return "", status.Errorf(status.BadRequest, "what is in %s is not one capability; it is a single word of letters, digits, - and _", where)
	}
	return token, nil
}
