// Package accept serves everybody who connects to a listener, so many at a time.
//
// Place: layer 4, below the launcher. Promise: it returns when all are served. Enemies: who connects and says nothing.
package accept
