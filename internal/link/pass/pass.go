// Package pass is how processes of a replica show the API whose they are.
//
// Place: layer 4, beside the link. A launcher makes a pass of its link token and puts it into a file of the tenant's; the door asks who
// minted the token whether it fits.
// Promise: nothing is stored; a pass works for its attempt alone, and gives nobody the token that it was made of.
// Enemies: a tenant with a pass who wants to be a launcher, a pass of an attempt that is over.
package pass

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// A pass is "fermireplica_<replica>_<43 base64url characters>"; names of replicas hold no '_'.
const prefix = "fermireplica_"

const longest = 512

// Make makes the pass of a replica from its link token.
func Make(replica, token string) string {
	return prefix + replica + "_" + proof(replica, token)
}

func proof(replica, token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("fermi-pass-v1\x00" + replica))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Read says which replica a secret claims to be of; false: it is no pass.
func Read(secret string) (replica string, ok bool) {
	rest, ok := strings.CutPrefix(secret, prefix)
	replica, said, two := strings.Cut(rest, "_")
	return replica, ok && two && replica != "" && len(secret) <= longest && len(said) == base64.RawURLEncoding.EncodedLen(sha256.Size)
}

// Fits says whether a pass was made from this token.
func Fits(secret, replica, token string) bool {
	return hmac.Equal([]byte(secret), []byte(Make(replica, token)))
}
