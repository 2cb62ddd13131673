# Downloads each of DATA_URLS, separated by spaces, to the folder DATA_VOLUME_PATH.
if [ -z "${DATA_URLS}" ]; then
    echo "No URLs provided in DATA_URLS." >&2
    exit 1
fi
for url in ${DATA_URLS}; do
    plain=${url%%[?#]*}
    file="${DATA_VOLUME_PATH}/$(basename "${plain}")"
    attempt=1
    until curl --fail --silent --show-error --location --proto '=http,https' --proto-redir '=http,https' \
        --output "${file}" "${url}" && [ -s "${file}" ]; do
        rm -f "${file}"
        if [ "${attempt}" -ge 3 ]; then
            echo "${url} cannot be downloaded after 3 attempts" >&2
            exit 1
        fi
        attempt=$((attempt + 1))
        sleep 2
    done
    echo "Downloaded ${url} to ${file}"
done
