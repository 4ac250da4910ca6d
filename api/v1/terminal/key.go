package terminal

import "time"

// Key is a public key by which a user enters over SSH.
type Key struct {
	ID          string    `json:"id" doc:"Short, of its fingerprint."`
	Name        string    `json:"name,omitempty" doc:"What the user calls it; its comment when absent."`
	Key         string    `json:"key" doc:"Type and value, as in authorized_keys."`
	Fingerprint string    `json:"fingerprint" doc:"SHA256:…, as ssh-keygen -l shows it."`
	AddedAt     time.Time `json:"addedAt"`
}
