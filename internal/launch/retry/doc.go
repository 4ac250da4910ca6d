// Package retry is how long a launcher pauses before it tries again what depends on a server or a network.
//
// Place: layer 4, below the launcher. Promise: a server that comes back is asked within seconds. Enemies: a thousand launchers that ask at once.
package retry
