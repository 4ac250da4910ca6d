package app

// The keys of a folder, each in a file that only its owner reads.
const (
	linkKeyFile   = "link.key"   // by which launchers and servers know each other
	secretKeyFile = "secret.key" // by which secrets are sealed
)
