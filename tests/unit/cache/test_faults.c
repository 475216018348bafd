/* Directories that are full, read-only, unwritable, gone or hung. Needs root: mounts tmpfs and a FUSE file system (tests/tools/faultfs)
 * in a mount namespace of its own, where nobody else sees them. argv[1] is faultfs. */
#include "fixture.h"

#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

static const char *faultfs;

static void private_mounts(void)
{
    ck_assert_msg(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "a mount namespace: %s", strerror(errno));
}

static void small_disk(const char *dir, const char *options)
{
    ck_assert(mkdir(dir, 0755) == 0 || errno == EEXIST);
    ck_assert_msg(mount("tmpfs", dir, "tmpfs", 0, options) == 0, "mount %s: %s", dir, strerror(errno));
}

/* ------------------------------------------------------------------------------------------------------- a hung mount */

static pid_t fs_pid;
static char backing[128], control[128];

static void fault(const char *word)
{
    int fd = open(control, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ck_assert_int_eq(nf_fd_write_all(fd, word, strlen(word)), NF_OK);
    close(fd);
}

static void fs_start(const char *mountpoint)
{
    private_mounts();
    nf_format(backing, sizeof(backing), "%s/backing", root);
    nf_format(control, sizeof(control), "%s/control", root);
    ck_assert_int_eq(mkdir(backing, 0755), 0);
    ck_assert(mkdir(mountpoint, 0755) == 0 || errno == EEXIST);
    fault("");
    struct stat before, now;
    ck_assert_int_eq(stat(mountpoint, &before), 0);
    fs_pid = fork();
    if (fs_pid == 0) {
        execl(faultfs, "faultfs", backing, mountpoint, control, "-f", "-o", "allow_other,default_permissions,attr_timeout=0,entry_timeout=0", (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 500; i++) {
        if (stat(mountpoint, &now) == 0 && now.st_dev != before.st_dev)
            return;
        nf_sleep_ns(10 * NF_MS);
    }
    ck_abort_msg("faultfs does not come up");
}

static void fs_stop(const char *mountpoint)
{
    fault("");
    umount2(mountpoint, MNT_DETACH);
    kill(fs_pid, SIGKILL);
    waitpid(fs_pid, NULL, 0);
}

static int64_t ms_since(int64_t begin) { return (nf_now_ns() - begin) / NF_MS; }

START_TEST(a_hung_mount_costs_its_patience_once_and_nothing_else)
{
    fs_start(shared_dir);
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .mount_patience_ns = 300 * NF_MS, .mount_retry_ns = 50 * NF_MS});
    struct request known = request_of("known", "2"), unknown = request_of("unknown", "2"), fresh = request_of("fresh", "2");
    struct nf_str artifact = bytes_of(200000, true);
    publish(s, &known, artifact);
    fault("hang");

    struct cache_found found;
    int64_t begin = nf_now_ns();
    ASSERT_FAILS(NF_EMOUNTHUNG, cache_store_lookup(s, &unknown.key, "", 0, &found, &err));
    ck_assert_int_ge(ms_since(begin), 250);
    ck_assert_int_lt(ms_since(begin), 2000);
    ck_assert_msg(strstr(err.message, shared_dir), "%s", err.message);

    int slow = 0;
    for (int i = 0; i < 21; i++) { /* known locally: at once. More than half of them, on a machine that does other things as well */
        begin = nf_now_ns();
        ASSERT_OK(cache_store_lookup(s, &known.key, "", 0, &found, &err));
        slow += ms_since(begin) >= 10;
        ck_assert(payload_is(found.hit, artifact));
        cache_found_done(&found);
    }
    ck_assert_int_le(slow, 10);
    begin = nf_now_ns(); /* the rest: at once as well, now that it is known to hang */
    ASSERT_FAILS(NF_EMOUNTHUNG, cache_store_lookup(s, &unknown.key, "", 0, &found, &err));
    ck_assert_int_lt(ms_since(begin), 100);

    struct cache_publication p = publication_of(&fresh, artifact);
    struct cache_published out = {0};
    begin = nf_now_ns();
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_lt(ms_since(begin), 1000);
    ck_assert_int_eq(out.local_rc, NF_OK);
    ck_assert_int_eq(out.shared_rc, NF_EMOUNTHUNG);
    ck_assert(payload_is(out.hit, artifact));
    cache_hit_close(out.hit);
    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert_msg(strstr(st.trouble, "does not answer"), "%s", st.trouble);
    ck_assert(!st.shared_writable);

    fault("");
    begin = nf_now_ns();
    int rc;
    while ((rc = cache_store_lookup(s, &unknown.key, "", 0, &found, &err)) == NF_EMOUNTHUNG && ms_since(begin) < 5000)
        nf_sleep_ns(10 * NF_MS);
    ck_assert_int_eq(rc, NF_ENOTFOUND);
    struct request after = request_of("after", "2");
    p = publication_of(&after, artifact);
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.shared_rc, NF_OK);
    cache_hit_close(out.hit);
    cache_store_status(s, &st);
    ck_assert_str_eq(st.trouble, "");
    /* And what was published meanwhile reaches the others after all. */
    char path[512];
    entry_path_of(backing, &fresh.key, CACHE_KIND_NEFF, path);
    for (begin = nf_now_ns(); !is_file(path) && ms_since(begin) < 20000;)
        nf_sleep_ns(50 * NF_MS);
    ck_assert(is_file(path));
    cache_store_close(s);
    fs_stop(shared_dir);
}
END_TEST

START_TEST(a_mount_that_hangs_from_the_start_hinders_neither_start_nor_end)
{
    fs_start(shared_dir);
    fault("hang");
    int64_t begin = nf_now_ns();
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .mount_patience_ns = 200 * NF_MS});
    struct request r = request_of("a", "2");
    publish(s, &r, NF_STR("payload"));
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    cache_found_done(&found);
    cache_store_close(s); /* leaves its stuck threads behind */
    ck_assert_int_lt(ms_since(begin), 4000);
    fault("");
    nf_sleep_ns(300 * NF_MS); /* they come back, and end */
    fs_stop(shared_dir);
}
END_TEST

START_TEST(errors_of_the_mount_cost_the_shared_tier_only)
{
    static const struct {
        const char *word;
        int publish_rc;
    } cases[] = {{"enospc", NF_ENOSPACE}, {"erofs", NF_EREADONLY}, {"eio", NF_EIO}, {"estale", NF_EIO}};
    fs_start(shared_dir);
    struct cache_store *s = store_open();
    struct request seen = request_of("seen", "2");
    publish(s, &seen, NF_STR("seen"));
    for (size_t i = 0; i < NF_ARRAY_LEN(cases); i++) {
        fault(cases[i].word);
        struct request r = request_of(cases[i].word, "2");
        struct cache_found found;
        struct cache_publication p = publication_of(&r, NF_STR("payload"));
        struct cache_published out = {0};
        ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &r.key, "", 0, &found, &err));
        ASSERT_OK(cache_store_publish(s, &p, &out, &err));
        ck_assert_msg(out.shared_rc == cases[i].publish_rc, "%s: %s", cases[i].word, out.shared_err.message);
        ck_assert_msg(strstr(out.shared_err.message, shared_dir), "%s", out.shared_err.message);
        ck_assert(payload_is(out.hit, NF_STR("payload")));
        cache_hit_close(out.hit);
        ASSERT_OK(cache_store_lookup(s, &seen.key, "", 0, &found, &err));
        cache_found_done(&found);
        struct cache_store_status st;
        cache_store_status(s, &st);
        ck_assert_msg(strstr(st.trouble, shared_dir), "%s: %s", cases[i].word, st.trouble);
        fault("");
    }
    /* A link whose answer is lost is a link. */
    fault("lost-link");
    struct request r = request_of("lost", "2");
    struct cache_publication p = publication_of(&r, NF_STR("payload"));
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.shared_rc, NF_OK);
    ck_assert(out.ours);
    cache_hit_close(out.hit);
    cache_store_close(s);
    fs_stop(shared_dir);
}
END_TEST

START_TEST(a_claim_asks_past_the_mounts_caches)
{
    fs_start(shared_dir);
    /* A second host's mount of the same directory, with negative answers cached. */
    char other_mount[128], other_local[128];
    nf_format(other_mount, sizeof(other_mount), "%s/mount2", root);
    nf_format(other_local, sizeof(other_local), "%s/local2", root);
    ck_assert_int_eq(mkdir(other_mount, 0755), 0);
    pid_t second = fork();
    if (second == 0) {
        execl(faultfs, "faultfs", backing, other_mount, control, "-f", "-o", "allow_other,default_permissions,attr_timeout=0,entry_timeout=0,negative_timeout=60", (char *)NULL);
        _exit(127);
    }
    struct stat before, now;
    ck_assert_int_eq(stat(root, &before), 0);
    for (int i = 0; i < 500 && (stat(other_mount, &now) != 0 || now.st_dev == before.st_dev); i++)
        nf_sleep_ns(10 * NF_MS);
    struct cache_store *a = store_open(), *b = store_open_with((struct cache_store_options){.local_dir = other_local, .shared_dir = other_mount});
    struct request seed = request_of("seed", "2"), r = request_of("r", "2");
    struct cache_found found;
    publish(a, &seed, NF_STR("x"));
    char dir[512];
    entry_path_of(other_mount, &r.key, CACHE_KIND_NEFF, dir);
    *strrchr(dir, '/') = 0;
    ASSERT_OK(nf_mkdir_p(dir, 0755, &err)); /* so that the name itself is looked up, and its absence remembered */
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(b, &r.key, "", 0, &found, &err));
    publish(a, &r, NF_STR("payload"));
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(b, &r.key, "", 0, &found, &err)); /* the cached negative answer */
    ASSERT_OK(cache_store_lookup(b, &r.key, "", CACHE_LOOKUP_CLAIMED, &found, &err));
    ck_assert(payload_is(found.hit, NF_STR("payload")));
    cache_found_done(&found);
    struct request absent = request_of("absent", "2"); /* and a probe leaves nothing */
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(b, &absent.key, "", CACHE_LOOKUP_CLAIMED, &found, &err));
    char path[512];
    struct stat st;
    entry_path_of(backing, &absent.key, CACHE_KIND_NEFF, path);
    ck_assert_int_ne(lstat(path, &st), 0);
    cache_store_close(a);
    cache_store_close(b);
    umount2(other_mount, MNT_DETACH);
    kill(second, SIGKILL);
    waitpid(second, NULL, 0);
    fs_stop(shared_dir);
}
END_TEST

START_TEST(the_local_tier_is_refused_on_a_network_file_system)
{
    fs_start(local_dir);
    struct cache_store *s;
    ASSERT_FAILS(NF_ECONFIG, cache_store_open(&(struct cache_store_options){.local_dir = local_dir}, &s, &err));
    ck_assert_msg(strstr(err.message, "FUSE") && strstr(err.message, local_dir), "%s", err.message);
    fs_stop(local_dir);
}
END_TEST

/* ----------------------------------------------------------------------------------------------------------- full disks */

START_TEST(a_full_local_disk_makes_room_or_spills)
{
    private_mounts();
    small_disk(local_dir, "size=4m");
    char spill[128];
    nf_format(spill, sizeof(spill), "%s/spill", root);
    struct cache_store *s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .spill_dir = spill});
    struct request big = request_of("big", "2");
    struct nf_str artifact = bytes_of(8 << 20, true);
    struct cache_publication p = publication_of(&big, artifact);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.shared_rc, NF_OK);
    ck_assert_int_eq(out.local_rc, NF_ENOSPACE);
    ck_assert(payload_is(out.hit, artifact));
    ck_assert_msg(strncmp(cache_hit_path(out.hit), spill, strlen(spill)) == 0, "%s", cache_hit_path(out.hit));
    cache_hit_close(out.hit);
    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert_msg(strstr(st.trouble, local_dir) && strstr(st.trouble, "space"), "%s", st.trouble);
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &big.key, "", 0, &found, &err)); /* from the spill directory */
    cache_found_done(&found);
    /* What fits goes in, and more makes the older give way. */
    for (int i = 0; i < 6; i++) {
        char seed[16];
        nf_format(seed, sizeof(seed), "s%d", i);
        struct request r = request_of(seed, "2");
        p = publication_of(&r, bytes_of(1 << 20, true));
        ASSERT_OK(cache_store_publish(s, &p, &out, &err));
        ck_assert_msg(out.local_rc == NF_OK, "%d: %s", i, out.local_err.message);
        cache_hit_close(out.hit);
    }
    cache_store_status(s, &st);
    ck_assert_str_eq(st.trouble, "");
    struct cache_store_counters c;
    cache_store_counters(s, &c);
    ck_assert_uint_gt(c.evicted, 0);
    cache_store_close(s);
    umount2(local_dir, MNT_DETACH);
}
END_TEST

START_TEST(without_room_anywhere_a_raw_entry_is_served_from_the_mount)
{
    private_mounts();
    struct cache_store *s = store_open();
    struct request r = request_of("big", "2");
    struct nf_str artifact = bytes_of(2 << 20, true);
    publish(s, &r, artifact);
    cache_store_close(s);
    char small[128];
    nf_format(small, sizeof(small), "%s/small", root);
    small_disk(small, "size=1m");
    s = store_open_with((struct cache_store_options){.local_dir = small, .shared_dir = shared_dir});
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &r.key, "", 0, &found, &err));
    ck_assert_int_eq(cache_hit_tier(found.hit), CACHE_TIER_SHARED);
    ck_assert(payload_is(found.hit, artifact));
    cache_found_done(&found);
    cache_store_close(s);
    umount2(small, MNT_DETACH);
}
END_TEST

START_TEST(both_disks_full_is_an_error_that_names_both)
{
    private_mounts();
    small_disk(local_dir, "size=1m");
    small_disk(shared_dir, "size=1m");
    struct cache_store *s = store_open();
    struct request r = request_of("big", "2");
    struct cache_publication p = publication_of(&r, bytes_of(4 << 20, true));
    struct cache_published out = {0};
    ASSERT_FAILS(NF_ENOSPACE, cache_store_publish(s, &p, &out, &err));
    ck_assert_msg(strstr(err.message, local_dir) && strstr(err.hint, shared_dir), "%s / %s", err.message, err.hint);
    char path[512];
    entry_path_of(shared_dir, &r.key, CACHE_KIND_NEFF, path);
    ck_assert(!is_file(path)); /* nothing torn */
    *strrchr(path, '/') = 0;
    ck_assert_uint_eq(files_in(path), 0);
    publish(s, &r, NF_STR("small"));
    cache_store_close(s);
    umount2(local_dir, MNT_DETACH);
    umount2(shared_dir, MNT_DETACH);
}
END_TEST

/* ------------------------------------------------------------------------------------- read-only, unwritable, vanished */

START_TEST(a_read_only_shared_tier_serves_hits_and_misses_go_to_the_local_one)
{
    private_mounts();
    struct cache_store *s = store_open();
    struct request old = request_of("old", "2"), fresh = request_of("fresh", "2");
    publish(s, &old, NF_STR("old"));
    cache_store_close(s);
    char other[128], path[512];
    nf_format(other, sizeof(other), "%s/other", root);
    ck_assert_int_eq(mount(shared_dir, shared_dir, NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(mount(NULL, shared_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared_dir});
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &old.key, "", 0, &found, &err));
    ck_assert_int_eq(found.tier, CACHE_TIER_SHARED);
    cache_found_done(&found);
    struct cache_publication p = publication_of(&fresh, NF_STR("fresh"));
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert_int_eq(out.shared_rc, NF_EREADONLY);
    cache_hit_close(out.hit);
    ASSERT_OK(cache_store_lookup(s, &fresh.key, "", 0, &found, &err));
    cache_found_done(&found);
    struct cache_store_status st;
    cache_store_status(s, &st);
    ck_assert(!st.shared_writable);
    cache_store_close(s);

    /* Damage there cannot be moved away: still never served, and the rebuilt artifact is. */
    ck_assert_int_eq(mount(NULL, shared_dir, NULL, MS_BIND | MS_REMOUNT, NULL), 0);
    entry_path_of(shared_dir, &old.key, CACHE_KIND_NEFF, path);
    ck_assert_int_eq(truncate(path, 10), 0);
    ck_assert_int_eq(mount(NULL, shared_dir, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL), 0);
    nf_format(other, sizeof(other), "%s/third", root);
    s = store_open_with((struct cache_store_options){.local_dir = other, .shared_dir = shared_dir});
    ASSERT_FAILS(NF_ENOTFOUND, cache_store_lookup(s, &old.key, "", 0, &found, &err));
    p = publication_of(&old, NF_STR("old"));
    ASSERT_OK(cache_store_publish(s, &p, &out, &err));
    ck_assert(payload_is(out.hit, NF_STR("old")));
    cache_hit_close(out.hit);
    cache_store_close(s);
    umount2(shared_dir, MNT_DETACH);
}
END_TEST

static void become(uid_t uid)
{
    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(uid, uid, uid), 0);
    ck_assert_int_eq(setresuid(uid, uid, uid), 0);
}

START_TEST(unwritable_directories_are_trouble_that_says_where)
{
    struct cache_store *s = store_open();
    struct request old = request_of("old", "2"), fresh = request_of("fresh", "2");
    struct nf_str artifact = bytes_of(50000, true);
    publish(s, &old, artifact);
    cache_store_close(s);
    ck_assert_int_eq(chmod(root, 0755), 0);
    ck_assert_int_eq(nf_remove_tree(AT_FDCWD, local_dir), NF_OK);
    ck_assert_int_eq(mkdir(local_dir, 0555), 0); /* root's, which may be used, but not written */
    char path[512], spill[128];
    entry_path_of(shared_dir, &old.key, CACHE_KIND_NEFF, path);
    for (char *slash = path + strlen(shared_dir); slash; slash = strchr(slash + 1, '/')) { /* everybody may read */
        char saved = *slash;
        *slash = 0;
        chmod(path, 0755);
        *slash = saved;
    }
    chmod(path, 0644);
    nf_format(spill, sizeof(spill), "%s/spill", root);
    ck_assert_int_eq(mkdir(spill, 0777), 0);
    ck_assert_int_eq(chown(spill, 12345, 12345), 0);
    pid_t pid = fork();
    if (pid) { /* this one may tidy up afterwards */
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
        return;
    }
    become(12345);
    umask(077);
    s = store_open_with((struct cache_store_options){.shared_dir = shared_dir, .spill_dir = spill, .file_mode = 0644});
    struct cache_found found;
    ASSERT_OK(cache_store_lookup(s, &old.key, "", 0, &found, &err));
    ck_assert(payload_is(found.hit, artifact));
    cache_found_done(&found);
    struct cache_publication p = publication_of(&fresh, artifact);
    struct cache_published out = {0};
    ASSERT_OK(cache_store_publish(s, &p, &out, &err)); /* only the spill directory takes it */
    ck_assert_int_ne(out.local_rc, NF_OK);
    ck_assert_int_eq(out.shared_rc, NF_EPERM);
    ck_assert_msg(strstr(out.shared_err.message, shared_dir), "%s", out.shared_err.message);
    ck_assert(payload_is(out.hit, artifact));
    struct stat st;
    ck_assert_int_eq(stat(cache_hit_path(out.hit), &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0644); /* whatever the umask */
    cache_hit_close(out.hit);
    struct cache_store_status status;
    cache_store_status(s, &status);
    ck_assert_msg(strstr(status.trouble, local_dir), "%s", status.trouble);
    cache_store_close(s);
    _exit(0);
}
END_TEST

START_TEST(who_does_not_own_the_local_directory_is_refused)
{
    struct cache_store *s;
    ck_assert_int_eq(mkdir(local_dir, 0777), 0);
    ck_assert_int_eq(chown(local_dir, 12345, 12345), 0);
    ASSERT_FAILS(NF_ECONFIG, cache_store_open(&(struct cache_store_options){.local_dir = local_dir}, &s, &err));
    ck_assert_msg(strstr(err.message, "12345"), "%s", err.message);
    ck_assert_int_eq(chown(local_dir, 0, 0), 0);
    ck_assert_int_eq(chmod(local_dir, 0777), 0);
    ASSERT_FAILS(NF_ECONFIG, cache_store_open(&(struct cache_store_options){.local_dir = local_dir}, &s, &err));
    ck_assert_msg(strstr(err.hint, "chmod"), "%s", err.hint);
}
END_TEST

START_TEST(vanished_directories_come_back)
{
    struct cache_store *s = store_open();
    struct request a = request_of("a", "2"), b = request_of("b", "2");
    struct cache_found found;
    publish(s, &a, NF_STR("a"));
    vanish(local_dir);
    ASSERT_OK(cache_store_lookup(s, &a.key, "", 0, &found, &err)); /* from the shared tier, and into a new local one */
    ck_assert(payload_is(found.hit, NF_STR("a")));
    cache_found_done(&found);
    vanish(shared_dir);
    ASSERT_OK(cache_store_lookup(s, &a.key, "", 0, &found, &err));
    cache_found_done(&found);
    publish(s, &b, NF_STR("b"));
    char path[512];
    entry_path_of(shared_dir, &b.key, CACHE_KIND_NEFF, path);
    ck_assert(is_file(path));
    cache_store_close(s);
}
END_TEST

START_TEST(no_umask_makes_an_entry_private)
{
    umask(077);
    struct cache_store *s = store_open();
    struct request r = request_of("a", "2");
    publish(s, &r, NF_STR("payload"));
    char path[512];
    struct stat st;
    for (int tier = 0; tier < 2; tier++) {
        entry_path_of(tier ? shared_dir : local_dir, &r.key, CACHE_KIND_NEFF, path);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0640);
        for (char *slash; (slash = strrchr(path, '/')) > path + strlen(root);) {
            *slash = 0;
            ck_assert_int_eq(stat(path, &st), 0);
            ck_assert_msg((st.st_mode & 0050) == 0050, "%s has mode %o", path, st.st_mode & 0777);
        }
    }
    cache_store_close(s);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc < 2 || geteuid() != 0 || access("/dev/fuse", R_OK | W_OK) != 0) {
        printf("needs root, /dev/fuse and faultfs\n");
        return 77;
    }
    faultfs = argv[1];
    Suite *suite = suite_create("cache-faults");
    TCase *t = tcase_create("faults");
    tcase_add_checked_fixture(t, fixture_setup, fixture_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_hung_mount_costs_its_patience_once_and_nothing_else);
    tcase_add_test(t, a_mount_that_hangs_from_the_start_hinders_neither_start_nor_end);
    tcase_add_test(t, errors_of_the_mount_cost_the_shared_tier_only);
    tcase_add_test(t, a_claim_asks_past_the_mounts_caches);
    tcase_add_test(t, the_local_tier_is_refused_on_a_network_file_system);
    tcase_add_test(t, a_full_local_disk_makes_room_or_spills);
    tcase_add_test(t, without_room_anywhere_a_raw_entry_is_served_from_the_mount);
    tcase_add_test(t, both_disks_full_is_an_error_that_names_both);
    tcase_add_test(t, a_read_only_shared_tier_serves_hits_and_misses_go_to_the_local_one);
    tcase_add_test(t, unwritable_directories_are_trouble_that_says_where);
    tcase_add_test(t, who_does_not_own_the_local_directory_is_refused);
    tcase_add_test(t, vanished_directories_come_back);
    tcase_add_test(t, no_umask_makes_an_entry_private);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
