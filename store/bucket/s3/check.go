package s3

import (
	"allium/internal/privatefile"
)

// maxCredentials bounds the bytes of a credentials file that a check reads.
const maxCredentials = 1 << 20

// CheckCredentials returns the error that a node would have with the credentials file. It is nil if none is named:
// the keys are in the environment of the node, which only the node knows.
func (c Config) CheckCredentials() error {
	if c.CredentialsFile == "" {
		return nil
	}
	return (&keys{file: c.CredentialsFile}).check()
}

// OpenToOthers reports whether other users of the machine may read the credentials file, and what to do.
func (c Config) OpenToOthers() error {
	if c.CredentialsFile == "" {
		return nil
	}
	_, err := privatefile.Read(c.CredentialsFile, maxCredentials, privatefile.NoAccess)
	return err
}
