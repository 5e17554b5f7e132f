# shellcheck shell=bash
# Packages of other Debian releases, fetched and unpacked into a folder: the system, its sources and its lists stay as they are.
# For the scripts beside it, which source it.

# The first mirror in apt's sources. Its archive has every release.
debian_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' |
        grep -v -e security -e '^cdrom' | head -n 1
}

# Makes FOLDER know what the releases have, the first of them before the others. Fails without a mirror or network.
debian_lists() { # FOLDER RELEASE...
    local folder=$1 from release
    from=$(debian_mirror) || true
    [ -n "$from" ] || { echo 'no mirror in /etc/apt' >&2 && return 1; }
    mkdir -p "$folder"/{lists,archives}/partial && : >"$folder/status" && : >"$folder/sources.list" || return 1
    for release in "${@:2}"; do
        printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$from" "$release" >>"$folder/sources.list"
    done
    printf 'Package: *\nPin: release n=%s\nPin-Priority: 900\n' "$2" >"$folder/preferences"
    debian_apt "$folder" apt-get update
}

# Runs an apt tool on FOLDER's lists, as if no package were installed.
debian_apt() { # FOLDER TOOL ARGUMENT...
    "$2" -q -o Dir::Etc::sourcelist="$1/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$1/lists" \
        -o Dir::Etc::preferences="$1/preferences" -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::status="$1/status" \
        -o Dir::Cache="$1" -o Dir::Cache::archives=archives -o APT::Sandbox::User=root -o APT::Install-Recommends=false \
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o Acquire::Languages=none -o Acquire::http::Timeout=30 -o Acquire::Retries=1 "${@:3}"
}

# Unpacks packages, with all that they need, into FOLDER/NAME. No script of theirs runs.
debian_tree() { # FOLDER NAME PACKAGE...
    local folder=$1 tree=$1/$2 package
    rm -f "$folder"/archives/*.deb && debian_apt "$folder" apt-get -y --download-only install "${@:3}" &&
        rm -rf "$tree" && mkdir "$tree" || return 1
    for package in "$folder"/archives/*.deb; do
        dpkg-deb -x "$package" "$tree" || return 1
    done
}

# Unpacks packages alone into FOLDER/NAME; PACKAGE/RELEASE names one of another release.
debian_packages() { # FOLDER NAME PACKAGE...
    local folder=$1 tree=$1/$2 package
    rm -rf "$tree" "$tree.debs" && mkdir "$tree" "$tree.debs" && (cd "$tree.debs" && debian_apt "$folder" apt-get download "${@:3}") || return 1
    for package in "$tree.debs"/*.deb; do
        dpkg-deb -x "$package" "$tree" || return 1
    done
    rm -rf "$tree.debs"
}
