// Package carry brings folders up as versions of datasets and models, and versions down into folders.
//
// Place: layer 5, below the commands. Promise: each file is read once; what the server has is not sent, and what was acknowledged is never sent again,
// also not by a later try after this one was killed; what comes down is verified, and what lies there whole is not fetched again.
// Enemies: files that change while they are read, links that lead out, lines that break.
package carry
