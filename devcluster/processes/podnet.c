/* Gives the processes of a pod an address of their own on the loopback network, without a network
 * namespace. Loaded into them by LD_PRELOAD; the pod is told by environment variables:
 *
 *   MANTA_POD_IP    the pod's address, 127.x.y.z with x < 128
 *   MANTA_POD_NAME  the pod's host name (optional)
 *   MANTA_HOSTS     a file like /etc/hosts that is read at every look-up (optional)
 *   MANTA_SERVICES  "10.96 127.96": first two bytes of service addresses, and what they become
 *
 * - Who listens on every address, or on loopback, listens on the pod's address.
 * - Who connects to loopback connects to the pod's address; to a service, to where it is held.
 * - Who connects to a loopback address and is not bound comes from the pod's address.
 * - A look-up of a name in the hosts file gives the addresses there; a reverse look-up of a loopback
 *   address finds nothing, at once.
 *
 * One process may listen on "every address" and on loopback at the same port, which are the same
 * here: the second one then gets an alias, 127.(x+128).y.z, that nobody asks for.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static in_addr_t pod_address(void) {
  const char *text = getenv("MANTA_POD_IP");
  struct in_addr parsed;
  return text && inet_pton(AF_INET, text, &parsed) == 1 ? parsed.s_addr : 0;
}

/* The IPv4 address in `a`, also if it is written as IPv6. False if there is none. */
static int ipv4_of(const struct sockaddr *a, in_addr_t *address) {
  if (a->sa_family == AF_INET) {
    *address = ((const struct sockaddr_in *)a)->sin_addr.s_addr;
    return 1;
  }
  if (a->sa_family != AF_INET6) return 0;
  const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(six)) {
    memcpy(address, six->s6_addr + 12, 4);
    return 1;
  }
  if (IN6_IS_ADDR_UNSPECIFIED(six)) *address = htonl(INADDR_ANY);
  else if (IN6_IS_ADDR_LOOPBACK(six)) *address = htonl(INADDR_LOOPBACK);
  else return 0;
  return 1;
}

static void set_ipv4(struct sockaddr_storage *a, in_addr_t address) {
  if (a->ss_family == AF_INET) {
    ((struct sockaddr_in *)a)->sin_addr.s_addr = address;
    return;
  }
  unsigned char *six = ((struct sockaddr_in6 *)a)->sin6_addr.s6_addr;
  memset(six, 0, 10);
  six[10] = six[11] = 0xff;
  memcpy(six + 12, &address, 4);
}

static int is_internet(const struct sockaddr *a, socklen_t n) {
  return a && n <= sizeof(struct sockaddr_storage) &&
         ((a->sa_family == AF_INET && n >= sizeof(struct sockaddr_in)) ||
          (a->sa_family == AF_INET6 && n >= sizeof(struct sockaddr_in6)));
}

static void allow_ipv4(int fd, int family) {
  int no = 0;
  if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
}

int bind(int fd, const struct sockaddr *a, socklen_t n) {
  in_addr_t pod = pod_address(), wanted;
  if (!pod || !is_internet(a, n) || !ipv4_of(a, &wanted)) return REAL(bind)(fd, a, n);
  int loopback = wanted == htonl(INADDR_LOOPBACK);
  if (!loopback && wanted != htonl(INADDR_ANY)) return REAL(bind)(fd, a, n);
  struct sockaddr_storage own;
  memcpy(&own, a, n);
  set_ipv4(&own, pod);
  allow_ipv4(fd, a->sa_family);
  int result = REAL(bind)(fd, (struct sockaddr *)&own, n);
  if (result && errno == EADDRINUSE && loopback) {
    set_ipv4(&own, pod | htonl(0x00800000));
    result = REAL(bind)(fd, (struct sockaddr *)&own, n);
  }
  return result;
}

/* Where a connection to `wanted` really goes. */
static in_addr_t destination(in_addr_t wanted, in_addr_t pod) {
  if (wanted == htonl(INADDR_LOOPBACK) || wanted == htonl(INADDR_ANY)) return pod;
  const char *services = getenv("MANTA_SERVICES");
  unsigned from[2], to[2];
  if (services && sscanf(services, "%u.%u %u.%u", from, from + 1, to, to + 1) == 4 &&
      ntohl(wanted) >> 16 == (from[0] << 8 | from[1]))
    return htonl((to[0] << 8 | to[1]) << 16 | (ntohl(wanted) & 0xffff));
  return wanted;
}

/* Let a socket that is not bound come from the pod's address. */
static void come_from(int fd, in_addr_t pod) {
  struct sockaddr_storage own;
  socklen_t n = sizeof own;
  in_addr_t address;
  int yes = 1;
  if (getsockname(fd, (struct sockaddr *)&own, &n) || !is_internet((struct sockaddr *)&own, n) ||
      !ipv4_of((struct sockaddr *)&own, &address) || address != htonl(INADDR_ANY) ||
      ((struct sockaddr_in *)&own)->sin_port)
    return;
  set_ipv4(&own, pod);
  allow_ipv4(fd, own.ss_family);
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
  int kept = errno;
  REAL(bind)(fd, (struct sockaddr *)&own, n);
  errno = kept;
}

int connect(int fd, const struct sockaddr *a, socklen_t n) {
  in_addr_t pod = pod_address(), wanted;
  if (!pod || !is_internet(a, n) || !ipv4_of(a, &wanted)) return REAL(connect)(fd, a, n);
  struct sockaddr_storage there;
  memcpy(&there, a, n);
  in_addr_t really = destination(wanted, pod);
  int type = 0;
  socklen_t size = sizeof type;
  getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
  /* Programs find out their own address by "connecting" a datagram socket to a public one. */
  if (type == SOCK_DGRAM && really == inet_addr("8.8.8.8")) really = pod;
  if (really != wanted) set_ipv4(&there, really);
  if (ntohl(really) >> 24 == 127) come_from(fd, pod);
  return REAL(connect)(fd, (struct sockaddr *)&there, n);
}

/* The first address of `name` in the hosts file; false if it is not there. */
static int known(const char *name, char *address, size_t size) {
  const char *path = getenv("MANTA_HOSTS");
  FILE *file = path && name ? fopen(path, "re") : NULL;
  char line[4096];
  int found = 0;
  while (file && !found && fgets(line, sizeof line, file)) {
    char *rest = NULL, *first = strtok_r(line, " \t\n", &rest), *word;
    while (first && (word = strtok_r(NULL, " \t\n", &rest)))
      if (!strcasecmp(word, name)) {
        found = snprintf(address, size, "%s", first) < (int)size;
        break;
      }
  }
  if (file) fclose(file);
  return found;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  char address[64];
  if (known(node, address, sizeof address)) node = address;
  return REAL(getaddrinfo)(node, service, hints, found);
}

int gethostbyaddr_r(const void *address, socklen_t n, int family, struct hostent *entry, char *space,
                    size_t size, struct hostent **found, int *error) {
  if (pod_address() && family == AF_INET && n == 4 && *(const unsigned char *)address == 127) {
    *found = NULL;
    *error = HOST_NOT_FOUND;
    return 0;
  }
  return REAL(gethostbyaddr_r)(address, n, family, entry, space, size, found, error);
}

int gethostname(char *name, size_t size) {
  const char *own = getenv("MANTA_POD_NAME");
  if (!own) return REAL(gethostname)(name, size);
  if (strlen(own) >= size) {
    errno = ENAMETOOLONG;
    return -1;
  }
  strcpy(name, own);
  return 0;
}

int uname(struct utsname *names) {
  const char *own = getenv("MANTA_POD_NAME");
  int result = REAL(uname)(names);
  if (!result && own) snprintf(names->nodename, sizeof names->nodename, "%s", own);
  return result;
}
