// Package port serves what listens in environments: to browsers on hosts of their own, to programs by a path or a WebSocket.
//
// Place: a room of the server, over terminals, whose rules about who may enter are its own. It reaches a replica through its launcher's link
// alone.
// Promise: a page of a tenant never has the console's origin or cookies; no cookie, token or header of ours reaches a tenant's program; who may
// not enter an environment reaches none of its ports, and who loses that right loses open connections within seconds; bytes are passed on
// as they come, WebSockets and event streams included.
// Enemies: a tenant's page, a tenant's answer that sets cookies for others, a link that was kept, a header that lies.
package port
